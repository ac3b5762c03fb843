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

// readRecord returns the number of connections in the file of --record, and its
// content.
func readRecord(t *testing.T, file string) (connections int, text string) {
	t.Helper()
	i, err := os.Stat(file)
	require.NoError(t, err)
	assert.EqualValues(t, 0o600, i.Mode())
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, []byte{0x4d, 0x3c, 0xb2, 0xa1}, b[:4])
	for rest := b[pcap.HeaderLen:]; len(rest) > 0; { // records are adjacent
		const recordLen = 16
		require.GreaterOrEqual(t, len(rest), recordLen)
		n := int(binary.LittleEndian.Uint32(rest[8:]))
		require.GreaterOrEqual(t, len(rest), recordLen+n)
		connections += bytes.Count(rest[:recordLen+n], []byte("MPA ID Req Frame"))
		rest = rest[recordLen+n:]
	}
	return connections, string(b)
}

// TestRecord checks that the file contains all connections of a command.
func TestRecord(t *testing.T) {
	r := newTestServer(t)
	other := startTestServer(t)
	data := randomBytes(100_000, 1)
	writeFile(t, data, r.dir, "f")
	file := filepath.Join(t.TempDir(), "out.pcap")
	mustRun(t, "cp", r.url+"/f", other.url+"/f", "--record", file)
	n, text := readRecord(t, file)
	assert.Equal(t, 2, n)
	assert.Equal(t, 2, strings.Count(text, string(data[1000:2000])), "read, and written")

	require.NoError(t, os.Chmod(file, 0o644))
	mustRun(t, "ls", r.url, "--record", file) // replaces the file
	n, text = readRecord(t, file)
	assert.Equal(t, 1, n)
	assert.NotContains(t, text, string(data[1000:2000]))
}

// TestRecordOfFailure checks that the file contains the bytes before an error.
func TestRecordOfFailure(t *testing.T) {
	r := newTestServer(t)
	end := func(*oncrpc.Request) bool { go r.stop(); return true }
	r.holdCall.Store(&end)
	file := filepath.Join(t.TempDir(), "out.pcap")
	mustFail(t, "ls", r.url, "--record", file)
	n, _ := readRecord(t, file)
	assert.Positive(t, n)
}

// TestRecordName checks that a file that cannot be created is an error before
// any change.
func TestRecordName(t *testing.T) {
	r := newTestServer(t)
	missing := filepath.Join(t.TempDir(), "no", "file")
	assert.Equal(t, "mountrdma: --record: open "+missing+": no such file or directory\n", mustFail(t, "mkdir", r.url+"/d", "--record", missing))
	assert.NoDirExists(t, filepath.Join(r.dir, "d"))

	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink("target", link))
	assert.Equal(t, "mountrdma: --record: "+link+" is a symbolic link: name the file itself\n", mustFail(t, "ls", r.url, "--record", link))
	if os.Geteuid() == 0 {
		other := filepath.Join(t.TempDir(), "other")
		require.NoError(t, os.WriteFile(other, []byte("text"), 0o600))
		require.NoError(t, os.Chown(other, 4001, 4001))
		assert.Contains(t, mustFail(t, "ls", r.url, "--record", other), "belongs to user 4001")
		kept, err := os.ReadFile(other)
		require.NoError(t, err)
		assert.Equal(t, "text", string(kept))
	}
	assert.Contains(t, mustFail(t, "ls", r.url, "--record", "/dev/full"), "--record: write /dev/full: no space left on device")
}

// TestRecordLimit checks that a mount that loses many connections does not fill
// the disk.
func TestRecordLimit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out.pcap")
	rec, err := openRecord(file)
	require.NoError(t, err)
	rec.size = recordLimit
	r := newTestServer(t)
	a := newApp(t.Output(), t.Output())
	a.recorder, a.recordName = rec, file
	a.timeout = defaultTimeout
	a.inline, a.credits = 4096, 16
	_, err = a.openSession(context.Background(), server{host: "127.0.0.1", port: r.addr[strings.LastIndexByte(r.addr, ':')+1:]})
	require.NoError(t, err)
	a.closeSessions()
	n, _ := readRecord(t, file)
	assert.Zero(t, n)
}
