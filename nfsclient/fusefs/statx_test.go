package fusefs

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// TestForceSync checks that AT_STATX_FORCE_SYNC sends GETATTR although the cached
// attributes are valid, and that a kernel that asks for another reason gets them
// from the cache.
func TestForceSync(t *testing.T) {
	s, m := newMount(t)
	writeFile(t, s.path("a"), []byte("1"))
	size := func(flags int) uint64 {
		var st unix.Statx_t
		require.NoError(t, unix.Statx(unix.AT_FDCWD, m.path("a"), flags, unix.STATX_BASIC_STATS, &st))
		return st.Size
	}
	assert.EqualValues(t, 1, size(0))
	for i := range 3 {
		writeFile(t, s.path("a"), make([]byte, 10+i))
		assert.EqualValues(t, 10+i, size(unix.AT_STATX_FORCE_SYNC))
		assert.EqualValues(t, 10+i, size(0))
	}
	assertContent(t, m.path("a"), make([]byte, 12))
	asked := m.callCount(nfs3.ProcGetAttr)
	f := openAt(t, m.path("a"), os.O_RDONLY|unix.O_DIRECT) // each read makes the kernel drop the atime
	for range 5 {
		_, err := f.ReadAt(make([]byte, 12), 0)
		require.NoError(t, err)
		size(0)
		listNames(t, m.dir)
		mustLstat(t, m.dir)
		size(unix.AT_STATX_DONT_SYNC)
	}
	assert.LessOrEqual(t, m.callCount(nfs3.ProcGetAttr)-asked, 1)
}
