//go:build interop

package interop

import (
	"bufio"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestDropped sends a WRITE to the kernel's server again, over another
// connection, while the server still executes the first one. The server drops
// the second WRITE, and has no connection for the first reply: only a further
// transmission is answered. mountrdma makes that transmission by itself, as
// TestClientReplyLost of rpcrdma checks; here another cut causes it sooner.
//
// The guest ends with the test: when many tests have run before, Linux 6.1
// cannot stop its server any more afterwards, as later tests do.
func TestDropped(t *testing.T) {
	t.Cleanup(endGuest)
	s := knfsdShop(t)
	r := newRelay(t, s.addr, hiddenSupport{})
	s.addr = r.addr
	s.runShell(t, "echo before >file; chmod 666 file")
	t.Cleanup(func() { s.runShell(t, "rm file") })
	m := s.mountFUSE(t)
	file := filepath.Join(m.point, "file")
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()

	block, err := sharedGuest(t).Open(t.Context(), "exec guestwork block /export/file")
	require.NoError(t, err)
	t.Cleanup(block.Close)
	line, err := bufio.NewReader(block).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "blocked\n", line)

	writes := func() int { return nfsdCount(t, "proc3", 9) }
	hits := func() int { return nfsdCount(t, "rc", 1) }
	begun, dropped := writes(), hits()
	data := strings.Repeat("data\n", 20000)
	written := make(chan error, 1)
	go func() {
		_, err := f.WriteString(data)
		if err == nil {
			err = f.Sync()
		}
		written <- err
	}()
	waitFor(t, "the WRITE", func() bool { return writes() > begun })
	r.resetAll()
	waitFor(t, "the second transmission", func() bool { return hits() > dropped })
	require.NoError(t, block.CloseWrite())
	waitFor(t, "the end of the block", func() bool {
		_, status := tryInGuest(t, "pidof guestwork")
		return status != 0
	})
	select {
	case err := <-written:
		t.Errorf("the server has answered the second transmission (%v)", err)
	case <-time.After(3 * time.Second):
	}
	r.resetAll()
	select {
	case err := <-written:
		assert.NoError(t, err)
	case <-time.After(mountLimit):
		t.Fatal("the third transmission is not answered either")
	}
	require.NoError(t, f.Close())
	m.unmountFUSE()
	assert.Equal(t, data, mustInGuest(t, "cat /export/file"))
}

// waitFor waits until a condition is true.
func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(mountLimit); !is(); time.Sleep(pollEvery) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, mountLimit)
		}
	}
}

// nfsdCount returns a number of the statistics of the guest's server: the one at
// an index behind the word that begins a line.
func nfsdCount(t *testing.T, word string, at int) int {
	for line := range strings.Lines(mustInGuest(t, "cat /proc/net/rpc/nfsd")) {
		if words := strings.Fields(line); words[0] == word {
			n, err := strconv.Atoi(words[at])
			require.NoError(t, err, "%v", words)
			return n
		}
	}
	t.Fatalf("no %s in /proc/net/rpc/nfsd", word)
	return 0
}
