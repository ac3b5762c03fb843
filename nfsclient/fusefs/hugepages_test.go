package fusefs

import (
	"bytes"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestMountWithoutHugePages checks that a mount works, and soon asks no more, if
// the host has no huge pages to give and no memory for READs: for WRITEs of any
// length, and while programs are started.
func TestMountWithoutHugePages(t *testing.T) {
	for name, errno := range map[string]unix.Errno{
		"no memory": unix.ENOMEM, "none at present": unix.EAGAIN, "busy": unix.EBUSY, "not permitted": unix.EINVAL,
	} {
		t.Run(name, func(t *testing.T) {
			s, m := newMount(t)
			var asked atomic.Int64
			b := m.writeBuffers
			b.mu.Lock()
			b.collapse = func(uintptr) unix.Errno { asked.Add(1); return errno }
			b.mu.Unlock()
			m.readBuffers.mu.Lock()
			m.readBuffers.mem = make([]byte, 0) // none is free
			m.readBuffers.mu.Unlock()
			data := randomBytes(12 << 20)
			f := openAt(t, m.path("a"), os.O_RDWR|os.O_CREATE)
			at := 0
			for _, size := range []int{1, 4095, 4096, 100 << 10} {
				_, err := f.Write(data[at : at+size])
				require.NoError(t, err)
				at += size
			}
			require.NoError(t, f.Sync())
			assert.Zero(t, asked.Load(), "for short ones")
			for at < len(data) {
				size := min(maxTransfer, len(data)-at)
				_, err := f.Write(data[at : at+size])
				require.NoError(t, err)
				at += size
				require.NoError(t, awaitExit(t, exec.Command("/bin/true")))
			}
			require.NoError(t, f.Sync())
			assertContent(t, s.path("a"), data)
			direct := openAt(t, m.path("a"), os.O_RDONLY|unix.O_DIRECT)
			got := make([]byte, len(data))
			n, err := direct.ReadAt(got, 0)
			require.NoError(t, err)
			assert.True(t, bytes.Equal(data, got[:n]))
			assert.Positive(t, asked.Load())
			assert.LessOrEqual(t, asked.Load(), int64(maxWriteBuffers))
			b.mu.Lock()
			defer b.mu.Unlock()
			assert.Equal(t, errno == unix.EINVAL, b.collapse == nil)
		})
	}
}

// TestHugePagesTakenAway checks the same for a process that may have none any more.
func TestHugePagesTakenAway(t *testing.T) {
	s := newWriteBuffers()
	if s.collapse == nil {
		s.collapse = collapseHugePage // as before the host forbade them
	}
	p := bytes.Repeat([]byte("nfsrdma!"), hugePage/8)
	want := bytes.Clone(p)
	require.NoError(t, unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0))
	defer func() { assert.NoError(t, unix.Prctl(unix.PR_SET_THP_DISABLE, 0, 0, 0, 0)) }()
	s.collapseMemory(p)
	assert.Nil(t, s.collapse, "asked no more")
	assert.True(t, bytes.Equal(want, p))
}
