package workload

import (
	"fmt"
	"os"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const permissions = 0o7777 // the bits that chmod sets

// testAttributes sets modes, owners and times. It needs root.
func testAttributes(t *T, dir string) {
	testModes(t, pathIn(dir))
	testOwners(t, pathIn(dir))
	testTimes(t, pathIn(dir)("times"))
}

func testModes(t *T, p func(string) string) {
	for _, mode := range []uint32{0, 0o1, 0o400, 0o644, 0o755, 0o777, 0o1666, 0o2755, 0o4755, 0o7777} {
		path := p(fmt.Sprintf("mode-%04o", mode))
		createFile(t, path, nil)
		require.NoError(t, unix.Chmod(path, mode))
		assert.Equal(t, mode, lstat(t, path).Mode&permissions)
	}
	for _, mode := range []uint32{0o700, 0o1777, 0o2775} {
		path := p(fmt.Sprintf("dir-%04o", mode))
		require.NoError(t, os.Mkdir(path, 0o700))
		require.NoError(t, unix.Chmod(path, mode))
		assert.Equal(t, mode, lstat(t, path).Mode&permissions)
	}
	f, err := os.OpenFile(p("created"), os.O_CREATE|os.O_WRONLY, 0o751)
	require.NoError(t, err)
	require.NoError(t, f.Chmod(0o600))
	require.NoError(t, f.Close())
	assert.EqualValues(t, 0o600, lstat(t, p("created")).Mode&permissions)
}

func testOwners(t *T, p func(string) string) {
	path := p("owned")
	createFile(t, path, nil)
	for _, o := range [][2]int{{1000, 1000}, {0, 2000}, {65534, 65534}, {1<<31 - 3, 77}, {0, 0}, {12, 34}} {
		require.NoError(t, os.Chown(path, o[0], o[1]))
		s := lstat(t, path)
		assert.EqualValues(t, o[0], s.Uid)
		assert.EqualValues(t, o[1], s.Gid)
	}
	require.NoError(t, os.Chown(path, -1, 99))
	assert.EqualValues(t, 12, lstat(t, path).Uid)
	require.NoError(t, os.Symlink("owned", p("link")))
	require.NoError(t, os.Lchown(p("link"), 5, 6))
	assert.EqualValues(t, 5, lstat(t, p("link")).Uid)
	assert.EqualValues(t, 12, lstat(t, path).Uid, "the link's target is unchanged")
}

func testTimes(t *T, path string) {
	createFile(t, path, []byte("x"))
	for _, at := range []time.Time{
		time.Unix(0, 0), time.Unix(1234567890, 123456789), time.Unix(2208988800, 999999999), // 2040
	} {
		require.NoError(t, os.Chtimes(path, at.Add(time.Second), at))
		assert.Equal(t, at.UnixNano(), unix.TimespecToNsec(unix.Timespec(lstat(t, path).Mtim)))
		assert.Equal(t, at.UnixNano()+1e9, unix.TimespecToNsec(unix.Timespec(lstat(t, path).Atim)))
	}
	was := lstat(t, path)
	omit := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Nsec: unix.UTIME_NOW}}
	require.NoError(t, unix.UtimesNanoAt(unix.AT_FDCWD, path, omit, 0))
	now := lstat(t, path)
	assert.Equal(t, was.Atim, now.Atim)
	assert.Less(t, now.Mtim.Sec, was.Mtim.Sec, "the present, no longer 2040")

	require.NoError(t, os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0)))
	require.NoError(t, os.WriteFile(path, []byte("y"), 0))
	assert.Greater(t, lstat(t, path).Mtim.Sec, int64(1), "writing changes it")
	require.NoError(t, os.Chtimes(path, time.Unix(7, 7), time.Unix(8, 8))) // for the manifest
}
