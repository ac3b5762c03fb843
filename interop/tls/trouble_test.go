//go:build interop

package tls

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/certtest"
)

const (
	settleLimit = 20 * time.Second // for the daemon to look at its files
	storeLimit  = 2 * time.Minute  // for a file to be stored
)

// A guestWriter writes files in the guest, one after the other, each with the content of
// /tmp/data, and reads them back from the server.
type guestWriter struct {
	*tlsSite
	name  string
	lines chan string // numbers of files that are stored
	last  int
}

// startWriter starts a writer in a mounted directory, which runs until /tmp/stop exists.
func (s *tlsSite) startWriter(name, dir string) *guestWriter {
	s.Helper()
	session, err := s.Open(s.Context(), fmt.Sprintf(`exec </dev/null 2>&1; cd %s && i=0 || exit
		while [ ! -e /tmp/stop ]; do
			dd if=/tmp/data of=f$i bs=64k conv=fsync 2>/tmp/%s.err || { cat /tmp/%[2]s.err; exit 1; }
			dd if=f$i bs=64k iflag=direct 2>/tmp/%[2]s.err | cmp - /tmp/data || { cat /tmp/%[2]s.err; exit 1; }
			echo $i
			i=$((i + 1))
		done`, dir, name))
	require.NoError(s, err)
	w := &guestWriter{s, name, make(chan string, 10_000), -1}
	ended := make(chan bool)
	go func() {
		defer close(ended)
		defer close(w.lines)
		for lines := bufio.NewScanner(session); lines.Scan(); {
			w.lines <- lines.Text()
		}
		assert.Zero(s, session.Status(), "the writer %s", name)
	}()
	s.Cleanup(func() {
		session.Close()
		<-ended
	})
	return w
}

// awaitFiles waits until more files are stored.
func (w *guestWriter) awaitFiles(n int) {
	w.Helper()
	late := time.After(storeLimit)
	for range n {
		select {
		case line, ok := <-w.lines:
			require.True(w, ok, "the writer %s has ended", w.name)
			w.recordLine(line)
		case <-late:
			require.Fail(w, "no file is stored", "by the writer %s", w.name)
		}
	}
}

func (w *guestWriter) recordLine(line string) {
	w.Helper()
	number, err := strconv.Atoi(line)
	require.NoError(w, err, "the writer %s says %q", w.name, line)
	require.Equal(w, w.last+1, number)
	w.last = number
}

// checkFiles checks all files at the server, after the end.
func (w *guestWriter) checkFiles(data []byte) {
	w.Helper()
	for line := range w.lines {
		w.recordLine(line)
	}
	for i := range w.last + 1 {
		content, err := os.ReadFile(filepath.Join(w.base, w.name, fmt.Sprint("f", i)))
		require.NoError(w, err)
		require.True(w, string(content) == string(data), "file %d of the writer %s", i, w.name)
	}
	w.Logf("the writer %s has stored %d files", w.name, w.last+1)
}

// TestTLSTrouble has Linux write by TLS, by versions 3 and 4.2, while connections are cut,
// while the daemon is killed, and while certificates and authorities are replaced on both
// ends. No program in the guest sees an error, all that was stored is there, and no
// connection continues unencrypted.
func TestTLSTrouble(t *testing.T) {
	s := newSite(t, map[string]string{"tls": "xprtsec=tls:mtls", "mtls": "xprtsec=mtls"}, "--nfs4-lease", "10s")
	data := make([]byte, 512<<10)
	_, _ = rand.Read(data)
	copy(data, mark)
	require.NoError(t, s.Push(t.Context(), certtest.Write(t, t.TempDir(), "data", data), "/tmp/data"))
	s.mountExport("tls", "/mnt", "3", "tls")
	s.mountExport("mtls", "/mnt2", "4.2", "mtls")
	_, _, clear := s.observed(t)
	writers := []*guestWriter{s.startWriter("tls", "/mnt"), s.startWriter("mtls", "/mnt2")}
	t.Cleanup(func() { s.Try("touch /tmp/stop") }) // before their ends are awaited
	goOn := func(why string) {
		t.Helper()
		began := time.Now()
		for _, w := range writers {
			w.awaitFiles(3)
		}
		t.Logf("%s: %v", why, time.Since(began))
	}
	goOn("at first")
	for range 3 {
		before, _, _ := s.observed(t)
		s.Cut()
		goOn("after a cut")
		now, _, _ := s.observed(t)
		assert.GreaterOrEqual(t, now, before+2, "connections with TLS")
	}
	for range 2 {
		s.restartDaemon()
		goOn("after a kill")
	}

	// Both ends change to another authority, step by step.
	second := certtest.New(t, "second", time.Now())
	next := second.Issue(withNames("guest"))
	s.serverTrusts(s.root, second)
	s.guestTrusts(s.root, second)
	s.guestHas(next)
	s.serverHas(second.Issue(withNames("server.test.example", "localhost")))
	s.readAgain()
	goOn("with another authority")
	s.Cut()
	goOn("after a cut")
	assert.Contains(t, s.daemonLog(), "CN=second")
	assert.Contains(t, s.daemonLog(), fmt.Sprintf("%X", next.Leaf.SerialNumber))
	before, _, _ := s.observed(t)
	s.serverTrusts(second)
	s.guestTrusts(second)
	s.readAgain()
	goOn("without the first authority")
	now, _, _ := s.observed(t)
	assert.Equal(t, before, now, "the connections stand against the new authority")

	s.Must("touch /tmp/stop")
	for _, w := range writers {
		w.checkFiles(data)
	}
	s.Must("umount /mnt /mnt2; rm /tmp/stop")
	protected, size, now := s.observed(t)
	t.Logf("%d connections with %d bytes in TLS", protected, size)
	assert.Equal(t, clear, now, "unencrypted connections")
}

// readAgain waits until the daemon has read its files again.
func (s *tlsSite) readAgain() {
	s.Helper()
	const words = "TLS certificates reloaded"
	said := strings.Count(s.daemonLog(), words)
	s.Signal(syscall.SIGHUP)
	require.Eventually(s, func() bool { return strings.Count(s.daemonLog(), words) > said }, settleLimit, 100*time.Millisecond)
}
