package workload

import (
	"io"
	"os"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// testTruncate shortens and lengthens files, by name and by descriptor.
func testTruncate(t *T, dir string) {
	path := pathIn(dir)("file")
	want := patternBytes(5, 10000)
	createFile(t, path, want)
	for _, n := range []int{5001, 5000, 4096, 12345, 4097, 0, 1, 70000, 3} {
		require.NoError(t, os.Truncate(path, int64(n)))
		want = append(want, make([]byte, max(0, n-len(want)))...)[:n]
		assert.EqualValues(t, n, lstat(t, path).Size)
		checkContent(t, path, want)
	}

	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(patternBytes(6, 9000), 0)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(4099)) // unwritten data are truncated too
	_, err = f.WriteAt([]byte("end"), 8191)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	want = append(patternBytes(6, 4099), make([]byte, 8194-4099)...)
	copy(want[8191:], "end")
	checkContent(t, path, want)

	f, err = os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	checkContent(t, path, nil)
	require.NoError(t, os.Truncate(path, 4098)) // left for the manifest
}

// testSparse leaves holes, within a file and beyond 32-bit offsets.
func testSparse(t *T, dir string) {
	const far = 20<<20 + 5 // bytes
	path := pathIn(dir)("holes")
	f, err := os.Create(path)
	require.NoError(t, err)
	want := make([]byte, far+7)
	for _, off := range []int{0, 1<<20 + 3, far} {
		fillPattern(want[off:off+7], 7, int64(off))
		_, err = f.WriteAt(want[off:off+7], int64(off))
		require.NoError(t, err)
	}
	require.NoError(t, f.Close())
	s := lstat(t, path)
	assert.EqualValues(t, far+7, s.Size)
	assert.Less(t, s.Blocks*512, int64(1<<20), "a hole uses no space")
	checkContent(t, path, want)

	path = pathIn(dir)("large")
	f, err = os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	const beyond = 5<<30 + 11 // bytes
	_, err = f.WriteAt([]byte("far out"), beyond)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	assert.EqualValues(t, beyond+7, lstat(t, path).Size)
	dropCache(t, f)
	got := make([]byte, 12)
	n, err := f.ReadAt(got, beyond-3)
	assert.Equal(t, io.EOF, err)
	assert.Equal(t, "\x00\x00\x00far out", string(got[:n]))
	require.NoError(t, f.Truncate(1<<32+1))
	assert.EqualValues(t, 1<<32+1, lstat(t, path).Size)
	require.NoError(t, f.Truncate(0)) // small again for the manifest
}
