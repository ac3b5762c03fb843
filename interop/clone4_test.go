//go:build interop

package interop

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsclient/nfs4client"
)

// TestCloneAtomic4 checks that no READ returns a part of a CLONE and a part of what the file had
// before, on XFS (R7862-15.13-6).
func TestCloneAtomic4(t *testing.T) {
	const (
		size   = 1 << 20
		clones = 100
	)
	disk := newDiskOf(t, "xfs")
	dir := filepath.Join(disk.dir, "served")
	require.NoError(t, os.Mkdir(dir, 0o777))
	d := serveDir(t, dir, "--no-root-squash")
	dial := func(ctx context.Context) (nfs4client.Conn, error) { return tcpConn(ctx, d.tcp) }
	s, other := dialTCP4(t, dial), dialTCP4(t, dial)
	root := exportRoot(t, s)
	files := make(map[byte]*nfs4client.File)
	for _, content := range []byte("abt") {
		f := openFile(t, s, root, string(content), nfs4client.OpenFlags{})
		_, err := f.WriteAt(t.Context(), bytes.Repeat([]byte{content}, size), 0, nfs4.FileSync)
		require.NoError(t, err)
		files[content] = f
	}
	target := files['t']
	ctx, cancel := context.WithCancel(t.Context())
	reader := openFile(t, other, root, "t", nfs4client.OpenFlags{})
	ended := make(chan map[byte]int)
	go func() {
		seen, p := make(map[byte]int), make([]byte, size)
		for ctx.Err() == nil {
			n, err := reader.ReadAt(context.WithoutCancel(ctx), p, 0)
			assert.ErrorIs(t, err, io.EOF)
			assert.Equal(t, size, n)
			if whole := bytes.Count(p, p[:1]); !assert.Equal(t, size, whole, "R7862-15.13-6: only these bytes are %c", p[0]) {
				break
			}
			seen[p[0]]++
		}
		ended <- seen
	}()
	var void nfs4.Void
	var res [2]nfs4.StatusRes
	for i := range clones {
		var c nfs4client.Compound
		c.PutFH(files["ab"[i%2]].Handle())
		c.Add(nfs4.OpSaveFH, &void, &res[0])
		c.PutFH(target.Handle())
		c.Add(nfs4.OpClone, &nfs4.CloneArgs{}, &res[1])
		require.NoError(t, s.Do(t.Context(), &c))
	}
	cancel()
	seen := <-ended
	t.Logf("READs by content: %v", seen)
	assert.Greater(t, len(seen), 1, "the reader saw no clone")
	for _, f := range []*nfs4client.File{reader, files['a'], files['b'], target} {
		assert.NoError(t, f.Close(t.Context()))
	}
	assert.NoError(t, s.Close(t.Context()))
	assert.NoError(t, other.Close(t.Context()))
}
