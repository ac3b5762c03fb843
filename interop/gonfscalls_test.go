//go:build interop

package interop

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vmware/go-nfs-client/nfs"
	"golang.org/x/sys/unix"
)

const gonfsSize = 1<<20 + 3 // bytes of a file that needs two calls

// A gonfsDir is a directory seen by the client and by the host.
type gonfsDir struct {
	*nfs.Target
	dir string
}

func (g gonfsDir) hostPath(name string) string { return filepath.Join(g.dir, name) }

// checkContent writes a file that the host reads, and reads a file that the host
// wrote.
func (g gonfsDir) checkContent(t *testing.T) {
	there, here := make([]byte, gonfsSize), make([]byte, gonfsSize)
	rand.Read(there)
	rand.Read(here)

	f, err := g.OpenFile("written", 0o640) // CREATE
	require.NoError(t, err)
	n, err := f.Write(there)
	require.NoError(t, err)
	assert.Equal(t, gonfsSize, n)
	require.NoError(t, f.Close()) // COMMIT
	got, err := os.ReadFile(g.hostPath("written"))
	require.NoError(t, err)
	assert.Equal(t, sha256.Sum256(there), sha256.Sum256(got))

	require.NoError(t, os.WriteFile(g.hostPath("read"), here, 0o644))
	f, err = g.Open("read")
	require.NoError(t, err)
	got = make([]byte, gonfsSize)
	_, err = io.ReadFull(f, got)
	require.NoError(t, err)
	assert.Equal(t, sha256.Sum256(here), sha256.Sum256(got))
	n, err = f.Read(got)
	assert.Zero(t, n)
	assert.Equal(t, io.EOF, err)

	// At an offset, over existing data.
	f, err = g.OpenFile("written", 0)
	require.NoError(t, err)
	_, err = f.Seek(gonfsSize-5, io.SeekStart)
	require.NoError(t, err)
	_, err = f.Write([]byte("further"))
	require.NoError(t, err)
	got, err = os.ReadFile(g.hostPath("written"))
	require.NoError(t, err)
	assert.True(t, bytes.Equal(append(there[:gonfsSize-5:gonfsSize-5], "further"...), got))
}

// checkNames makes, finds and removes objects that the host also sees.
func (g gonfsDir) checkNames(t *testing.T) {
	_, err := g.Mkdir("dir", 0o751)
	require.NoError(t, err)
	fh, err := g.Create("dir/file", 0o604)
	require.NoError(t, err)
	assert.NotEmpty(t, fh)
	for name, mode := range map[string]uint32{"dir": unix.S_IFDIR | 0o751, "dir/file": unix.S_IFREG | 0o604} {
		var st unix.Stat_t
		require.NoError(t, unix.Lstat(g.hostPath(name), &st))
		assert.Equal(t, mode, st.Mode, name)
		assert.Equal(t, [2]uint32{gonfsUID, gonfsGID}, [2]uint32{st.Uid, st.Gid}, name)
	}

	require.NoError(t, os.WriteFile(g.hostPath("dir/file"), []byte("seven\n\n"), 0o604))
	here, err := os.Stat(g.hostPath("dir/file"))
	require.NoError(t, err)
	there, found, err := g.Lookup("dir/file")
	require.NoError(t, err)
	assert.Equal(t, fh, found, "handle of CREATE and of LOOKUP")
	assert.EqualValues(t, 7, there.Size())
	assert.True(t, here.ModTime().Equal(there.ModTime()))
	assert.False(t, there.IsDir())

	const text = "not/there/at all" + "é" // 2 bytes of padding
	require.NoError(t, os.Symlink(text, g.hostPath("dir/link")))
	link, err := g.Open("dir/link")
	require.NoError(t, err)
	got, err := link.Readlink()
	require.NoError(t, err)
	assert.Equal(t, text, got)

	require.NoError(t, g.Remove("dir/link"))
	require.NoError(t, g.Remove("dir/file"))
	require.NoError(t, g.RmDir("dir"))
	assert.NoFileExists(t, g.hostPath("dir/file"))
	assert.NoDirExists(t, g.hostPath("dir"))
}

// checkListing lists a directory that needs many calls of READDIRPLUS.
func (g gonfsDir) checkListing(t *testing.T) {
	want := make(map[string]int64)
	require.NoError(t, os.Mkdir(g.hostPath("many"), 0o755))
	for i := range 300 {
		name := fmt.Sprintf("%0*d", 3+i%100, i)
		require.NoError(t, os.WriteFile(g.hostPath("many/"+name), make([]byte, i), 0o644))
		want[name] = int64(i)
	}
	entries, err := g.ReadDirPlus("many")
	require.NoError(t, err)
	assert.Len(t, entries, len(want)+2)
	got := make(map[string]int64)
	for _, e := range entries {
		assert.True(t, e.Attr.IsSet, e.FileName)
		if e.FileName == "." || e.FileName == ".." {
			assert.True(t, e.IsDir(), e.FileName)
			continue
		}
		got[e.FileName] = e.Size()
	}
	assert.Equal(t, want, got)
}

// checkErrors makes calls that fail.
func (g gonfsDir) checkErrors(t *testing.T) {
	require.NoError(t, os.MkdirAll(g.hostPath("full/inner"), 0o755))
	require.NoError(t, os.Chown(g.hostPath("full"), gonfsUID, gonfsGID))
	require.NoError(t, os.WriteFile(g.hostPath("private"), []byte("secret"), 0o600))

	_, _, err := g.Lookup("missing")
	assert.ErrorIs(t, err, os.ErrNotExist)
	assert.ErrorIs(t, g.Remove("missing"), os.ErrNotExist)
	_, err = g.Mkdir("full", 0o755)
	assert.ErrorIs(t, err, os.ErrExist)
	assert.True(t, nfs.IsNotEmptyError(g.RmDir("full")))
	assert.DirExists(t, g.hostPath("full/inner"))
	assert.True(t, nfs.IsNotDirError(g.RmDir("private")))
	private, err := g.Open("private")
	require.NoError(t, err)
	_, err = private.Read(make([]byte, 10))
	assert.EqualError(t, err, "NFS3ERR_ACCES")
}
