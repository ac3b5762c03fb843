package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/pcap"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// recorded returns the number of connections in the file of --record, and its
// content.
func recorded(t *testing.T, file string) (connections int, text string) {
	t.Helper()
	i, err := os.Stat(file)
	require.NoError(t, err)
	assert.EqualValues(t, 0o600, i.Mode())
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, []byte{0x4d, 0x3c, 0xb2, 0xa1}, b[:4])
	for rest := b[pcap.HeaderLen:]; len(rest) > 0; { // records follow one another without a gap
		const recordLen = 16
		require.GreaterOrEqual(t, len(rest), recordLen)
		n := int(binary.LittleEndian.Uint32(rest[8:]))
		require.GreaterOrEqual(t, len(rest), recordLen+n)
		connections += bytes.Count(rest[:recordLen+n], []byte("MPA ID Req Frame"))
		rest = rest[recordLen+n:]
	}
	return connections, string(b)
}

// TestRecord checks that the file has all connections of a command.
func TestRecord(t *testing.T) {
	r := newRig(t)
	other := startRig(t)
	data := random(100_000, 1)
	write(t, data, r.dir, "f")
	file := filepath.Join(t.TempDir(), "out.pcap")
	must(t, "cp", r.url+"/f", other.url+"/f", "--record", file)
	n, text := recorded(t, file)
	assert.Equal(t, 2, n)
	assert.Equal(t, 2, strings.Count(text, string(data[1000:2000])), "read, and written")

	must(t, "ls", r.url, "--record", file) // replaces the file
	n, text = recorded(t, file)
	assert.Equal(t, 1, n)
	assert.NotContains(t, text, string(data[1000:2000]))
}

// TestRecordOfFailure checks that the file has the bytes before an error.
func TestRecordOfFailure(t *testing.T) {
	r := newRig(t)
	end := func(*oncrpc.Request) bool { go r.stop(); return true }
	r.hang.Store(&end)
	file := filepath.Join(t.TempDir(), "out.pcap")
	refused(t, "ls", r.url, "--record", file)
	n, _ := recorded(t, file)
	assert.Positive(t, n)
}

// TestRecordName checks that a file that cannot be created is an error before
// any change.
func TestRecordName(t *testing.T) {
	r := newRig(t)
	missing := filepath.Join(t.TempDir(), "no", "file")
	assert.Equal(t, "mountrdma: --record: open "+missing+": no such file or directory\n", refused(t, "mkdir", r.url+"/d", "--record", missing))
	assert.NoDirExists(t, filepath.Join(r.dir, "d"))

	assert.Contains(t, refused(t, "ls", r.url, "--record", "/dev/full"), "--record: write /dev/full: no space left on device")
}

// TestRecordLimit checks that a mount that loses many connections does not fill
// the disk.
func TestRecordLimit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out.pcap")
	rec, err := openRecord(file)
	require.NoError(t, err)
	rec.size = recordLimit
	r := newRig(t)
	a := newApp(t.Output(), t.Output())
	a.record, a.recordName = rec, file
	a.timeout = defaultTimeout
	a.inline, a.credits = 4096, 16
	_, err = a.session(context.Background(), server{host: "127.0.0.1", port: r.addr[strings.LastIndexByte(r.addr, ':')+1:]})
	require.NoError(t, err)
	a.close()
	n, _ := recorded(t, file)
	assert.Zero(t, n)
}
