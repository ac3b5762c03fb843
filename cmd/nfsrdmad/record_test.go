package main

import (
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
)

func init() {
	signal.Notify(make(chan os.Signal, 1), unix.SIGUSR2) // starts its permanent goroutine before a test counts goroutines
}

// waitRecords waits until a directory has count records, and returns their names.
func waitRecords(t *testing.T, dir string, count int) []string {
	t.Helper()
	var files []string
	require.Eventually(t, func() bool {
		var err error
		files, err = filepath.Glob(filepath.Join(dir, "*.pcap"))
		require.NoError(t, err)
		return len(files) >= count
	}, 10*time.Second, time.Millisecond)
	require.Len(t, files, count)
	return files
}

// dialRDMA connects to the daemon.
func (s *testDaemon) dialRDMA(t *testing.T) (*iwarp.Conn, replyHandler) {
	t.Helper()
	in := replyHandler{make(chan []byte, 1)}
	c, err := iwarp.Open(iwarp.Config{}).Dial(t.Context(), s.transportAddr(t, "rdma"), rdma.ConnConfig{Handler: in, Recvs: 2})
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c.(*iwarp.Conn), in
}

// causeTerminate causes the daemon to terminate a connection.
func (s *testDaemon) causeTerminate(t *testing.T) string {
	t.Helper()
	c, in := s.dialRDMA(t)
	require.NoError(t, c.Post(rdma.WR{Op: rdma.OpWrite, Data: [][]byte{{1}}, Remote: rdma.Remote{STag: 1}}))
	_, more := <-in.got
	require.False(t, more)
	return c.LocalAddr().String()
}

// TestRecordOfTerminate checks that a Terminate makes a file that only its
// owner can read.
func TestRecordOfTerminate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "records")
	s := startDaemon(t, "--listen", "[::1]:0", "--tcp", "", "--record", dir, t.TempDir())
	peer := s.causeTerminate(t)
	s.dialRDMA(t) // a graceful end makes no file
	s.stop()
	s.status <- <-s.status
	for _, file := range waitRecords(t, dir, 1) {
		port := peer[strings.LastIndexByte(peer, ':')+1:]
		assert.Regexp(t, `^__1_`+port+`-\d{8}T\d{6}\.\d{6}Z\.pcap$`, filepath.Base(file))
		i, err := os.Stat(file)
		require.NoError(t, err)
		assert.EqualValues(t, 0o600, i.Mode())
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Equal(t, []byte{0x4d, 0x3c, 0xb2, 0xa1}, b[:4])
		assert.Contains(t, string(b), "MPA ID Req Frame")
		assert.Contains(t, string(b), "MPA ID Rep Frame")
		assert.Contains(t, s.stderr.String(), `msg="connection recorded" peer=`+peer)
		assert.Contains(t, s.stderr.String(), file)
	}
}

// TestRecordOnRequest checks that SIGUSR1 makes a file for each connection.
func TestRecordOnRequest(t *testing.T) {
	dir := t.TempDir()
	s := startDaemon(t, "--listen", "127.0.0.1:0", "--tcp", "", "--record", dir, t.TempDir())
	var want []string
	for range 3 {
		c, in := s.dialRDMA(t)
		nullCall(t, c, in) // the daemon's end runs
		want = append(want, "127.0.0.1_"+c.LocalAddr().String()[len("127.0.0.1:"):])
	}
	require.NoError(t, unix.Kill(os.Getpid(), unix.SIGUSR1))
	var got []string
	for _, file := range waitRecords(t, dir, 3) {
		got = append(got, strings.SplitN(filepath.Base(file), "-", 2)[0])
	}
	assert.ElementsMatch(t, want, got)
}

// TestRecordPause checks that further Terminates within the pause make no
// files.
func TestRecordPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := openRecorder(t.TempDir(), slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		for range 2 {
			assert.True(t, r.mayWriteRecord())
			assert.False(t, r.mayWriteRecord())
			time.Sleep(recordInterval - time.Millisecond)
			assert.False(t, r.mayWriteRecord())
			time.Sleep(time.Millisecond)
		}
	})
}

// TestRecordsBounded checks that the number of files is bounded.
func TestRecordsBounded(t *testing.T) {
	dir := t.TempDir()
	for i := range maxRecords {
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)+".pcap"), nil, 0o600))
	}
	s := startDaemon(t, "--listen", "127.0.0.1:0", "--tcp", "", "--record", dir, t.TempDir())
	s.causeTerminate(t)
	s.stop()
	s.status <- <-s.status
	waitRecords(t, dir, maxRecords)
	assert.Equal(t, 1, strings.Count(s.stderr.String(), "not recording Terminates: too many files"), s.stderr.String())
}

// TestRecordDir checks that a directory that cannot be written to is an error
// at the start.
func TestRecordDir(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	status, _, stderr := runCommand(t, "serve", "--state", t.TempDir(), "--record", file, "/")
	assert.Equal(t, 1, status)
	assert.Equal(t, "nfsrdmad: --record "+file+": mkdir "+file+": not a directory: name a writable directory\n", stderr)
}
