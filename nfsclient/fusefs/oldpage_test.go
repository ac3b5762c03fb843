package fusefs

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// someNames reads some more names of a directory, with a buffer as small as that
// of Go's os.ReadDir.
func someNames(t testing.TB, fd int) (names []string) {
	t.Helper()
	buf := make([]byte, 8<<10)
	n, err := unix.Getdents(fd, buf)
	require.NoError(t, err)
	_, _, names = unix.ParseDirent(buf[:n], -1, nil)
	return names
}

// TestPausedListing checks that a listing that continues after a pause does not
// present the names and the attributes of a page from before the pause as new.
func TestPausedListing(t *testing.T) {
	const life = 500 * time.Millisecond
	name := func(i int) string { return fmt.Sprintf("f%03d", i) + strings.Repeat("n", 200) } // few fit into the buffer
	s := newServer(t, nil)
	m := s.mount(func(c *Config) { c.RegMin, c.RegMax, c.DirMin, c.DirMax = life, life, life, life })
	for _, replaced := range []bool{false, true} {
		dir := fmt.Sprint("replaced ", replaced)
		require.NoError(t, os.Mkdir(s.path(dir), 0o755))
		for i := range 300 {
			writeFile(t, s.path(dir+"/"+name(i)), []byte("x"))
		}
		fd, err := unix.Open(m.path(dir), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		defer unix.Close(fd)
		someNames(t, fd)
		time.Sleep(life + 20*time.Millisecond)
		for i := range 300 {
			path := s.path(dir + "/" + name(i))
			if replaced {
				require.NoError(t, os.Rename(path, path+".old"))
			}
			writeFile(t, path, []byte("new data"))
		}
		if replaced {
			mustLstat(t, m.path(dir)) // its new state is known
		}
		count := 0
		for names := someNames(t, fd); len(names) > 0; names = someNames(t, fd) {
			for _, name := range names {
				if path := m.path(dir + "/" + name); !strings.HasSuffix(name, ".old") {
					assert.EqualValues(t, len("new data"), mustLstat(t, path).Size, "%s/%.4s", dir, name)
					assertContent(t, path, []byte("new data"))
					count++
				}
			}
		}
		assert.Greater(t, count, 50, "names of the old page")
	}
}

// TestSlowReply checks that the attributes of a reply are believed from the time
// of its call.
func TestSlowReply(t *testing.T) {
	const life = 300 * time.Millisecond
	s := newServer(t, nil)
	m := s.mount(func(c *Config) { c.RegMin, c.RegMax = life, life })
	writeFile(t, s.path("a"), nil)
	m.mu.Lock()
	m.after = func(x *oncrpc.Exchange) {
		if x.Prog == nfs3.Program && x.Proc == nfs3.ProcLookup {
			time.Sleep(2 * life)
		}
	}
	m.mu.Unlock()
	before := m.callCount(nfs3.ProcGetAttr)
	mustLstat(t, m.path("a"))
	assert.Equal(t, before+1, m.callCount(nfs3.ProcGetAttr), "the reply to LOOKUP is old")
	mustLstat(t, m.path("a"))
	assert.Equal(t, before+1, m.callCount(nfs3.ProcGetAttr), "the reply to GETATTR is not")
}
