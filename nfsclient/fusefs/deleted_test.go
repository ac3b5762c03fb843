package fusefs

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestHeldDeleted checks that an unused delegation does not keep a file on disk
// that a process of the server's host removes.
func TestHeldDeleted(t *testing.T) {
	s := newGrantingServer(t, false)
	writeFile(t, s.path("f"), []byte("content"))
	var st unix.Stat_t
	require.NoError(t, unix.Stat(s.path("f"), &st))
	m := s.mount(nil)
	statAndRead(t, m.path("f"))
	m.awaitNoOpenFiles()
	require.Eventually(t, func() bool { return s.keeper.Stats().InForce > 0 }, 10*time.Second, time.Millisecond)
	require.Positive(t, countDescriptors(st))
	require.NoError(t, os.Remove(s.path("f")))
	assert.Eventually(t, func() bool { return countDescriptors(st) == 0 }, 20*time.Second, 10*time.Millisecond)
}

// countDescriptors returns the number of this process's descriptors of a file.
func countDescriptors(of unix.Stat_t) (n int) {
	fds, _ := filepath.Glob("/proc/self/fd/*")
	for _, fd := range fds {
		var st unix.Stat_t
		if unix.Stat(fd, &st) == nil && st.Dev == of.Dev && st.Ino == of.Ino {
			n++
		}
	}
	return n
}
