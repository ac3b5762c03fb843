package fusefs

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nlm4/nlm4test"
)

// TestLocksAppend has two mounts append to one file under locks, with the file open
// all the time: nothing is overwritten, and no hole is left after another client has
// cut the file.
func TestLocksAppend(t *testing.T) {
	s, nlm := newServer(t, nil), nlm4test.New(t)
	writeFile(t, s.path("log"), nil)
	var files []*os.File
	for range 2 {
		files = append(files, openAt(t, s.mount(shareLocks(t, nlm)).path("log"), os.O_RDWR|os.O_APPEND))
	}
	locked := func(i int, do func(f *os.File)) {
		t.Helper()
		f := files[i%2]
		require.NoError(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
		do(f)
		require.NoError(t, unix.Flock(int(f.Fd()), unix.LOCK_UN))
	}
	var want strings.Builder
	for i, n := range []int{1, 3000, 4096, 5, 3 * maxTransfer, 1000, 8191} {
		line := strings.Repeat(string(rune('a'+i)), n)
		locked(i, func(f *os.File) {
			for range 2 {
				want.WriteString(line)
				_, err := f.WriteString(line)
				require.NoError(t, err)
				st, err := f.Stat()
				require.NoError(t, err)
				require.EqualValues(t, want.Len(), st.Size())
				got := make([]byte, want.Len())
				_, err = f.ReadAt(got, 0)
				require.NoError(t, err)
				require.True(t, want.String() == string(got), "after append %d", i)
			}
		})
	}
	data, err := os.ReadFile(s.path("log"))
	require.NoError(t, err)
	assert.True(t, want.String() == string(data))

	locked(0, func(f *os.File) { require.NoError(t, f.Truncate(5)) })
	locked(1, func(f *os.File) {
		_, err := f.WriteString("end")
		require.NoError(t, err)
	})
	data, err = os.ReadFile(s.path("log"))
	require.NoError(t, err)
	assert.Equal(t, want.String()[:5]+"end", string(data))
}

// TestLocksAppendPages checks that the kernel does not keep the data of an append as
// those of another offset.
func TestLocksAppendPages(t *testing.T) {
	s, nlm := newServer(t, nil), nlm4test.New(t)
	writeFile(t, s.path("log"), nil)
	m, other := s.mount(shareLocks(t, nlm)), s.mount(shareLocks(t, nlm))
	f, g := openAt(t, m.path("log"), os.O_WRONLY|os.O_APPEND), openAt(t, other.path("log"), os.O_WRONLY|os.O_APPEND)
	page := os.Getpagesize()
	for i, file := range []*os.File{f, g, f} {
		require.NoError(t, unix.Flock(int(file.Fd()), unix.LOCK_EX))
		_, err := file.WriteString(strings.Repeat(string(rune('a'+i)), page))
		require.NoError(t, err)
		require.NoError(t, unix.Flock(int(file.Fd()), unix.LOCK_UN))
	}
	n := m.table.findChild(m.table.findNode(1), "log")
	require.Eventually(t, func() bool {
		got := make([]byte, 1)
		count, _ := m.server.InodeRetrieveCache(n.id, int64(page), got)
		return count == 0 || got[0] == 'b'
	}, 10*time.Second, time.Millisecond)
}
