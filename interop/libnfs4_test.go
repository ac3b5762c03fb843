//go:build interop

package interop

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLibNFS4 has libnfs, a client over NFSv4.0, list directories, and copy files to
// nfsrdmad and back, by its own programs, and by one that writes long files.
func TestLibNFS4(t *testing.T) {
	d := startDaemon(t, "--no-root-squash")
	_, port, err := net.SplitHostPort(d.tcp)
	require.NoError(t, err)
	url := func(path string) string {
		return fmt.Sprintf("'nfs://127.0.0.1/x%s?version=4&nfsport=%s'", path, port)
	}
	put, dir := filepath.Join(t.TempDir(), "put"), t.TempDir()
	onHost(t, "libnfs", "gcc -O2 -Wall -Wextra -Werror -o "+put+" put.c -lnfs")
	onHost(t, d.dir, "mkdir d d/empty; seq 400000 >d/big; echo hello >small; ln -s small link; touch nothing")
	before := d.openFiles()

	// The lines are of a mode, links, owner, group, length and name.
	list := func(path string) string {
		return onHost(t, dir, "nfs-ls "+url(path)+" | awk '{print $1, $5, $6}' | sort")
	}
	st, err := os.Stat(filepath.Join(d.dir, "d"))
	require.NoError(t, err)
	assert.Equal(t, fmt.Sprintf("-rw-r--r-- 0 nothing\n-rw-r--r-- 6 small\ndrwxr-xr-x %d d\nlrwxrwxrwx 5 link\n", st.Size()), list(""))
	assert.Contains(t, list("/d"), " 2688895 big\n")
	assert.Empty(t, list("/d/empty"))

	assert.Equal(t, "hello\n", onHost(t, dir, "nfs-cat "+url("/small")))
	onHost(t, dir, "nfs-cp "+url("/d/big")+" out && cmp out "+d.dir+"/d/big")
	onHost(t, dir, "head -c 2000 out >in && nfs-cp in "+url("/d/in")+" && cmp in "+d.dir+"/d/in")
	onHost(t, dir, put+" "+url("/d")+" /copied <out && cmp out "+d.dir+"/d/copied && [ ! -e "+d.dir+"/d/part ]")
	out, err := tryOnHost(dir, put+" "+url("/d/big")+" /copied </dev/null")
	assert.Error(t, err)
	assert.Contains(t, out, "NFS4ERR_NOTDIR")

	d.checkDescriptors(before)
	d.stopGracefully()
	assert.NotContains(t, d.stderr.String(), "level=WARN")
}
