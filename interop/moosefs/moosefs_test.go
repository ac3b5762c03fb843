//go:build interop

package moosefs

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/nstest"
	"github.com/nfsrdma/nfsrdma/interop"
)

// TestProbe checks what nfsrdmad probe reports about two mounts.
func TestProbe(t *testing.T) {
	out, err := exec.Command("./build").Output()
	require.NoError(t, err)
	root := strings.TrimSpace(string(out))
	nstest.Run(t, func(t *testing.T) {
		programs := t.TempDir()
		require.NoError(t, interop.BuildPrograms(programs))
		c := Start(t, root, time.Minute)
		var errs [2]bytes.Buffer
		var reports [2]bytes.Buffer
		var probes [2]*exec.Cmd
		for i, host := range []string{"a", "b"} {
			dir, _ := c.Mount(host)
			if i == 0 {
				require.NoError(t, os.Mkdir(filepath.Join(dir, "state"), 0o700))
			}
			probes[i] = exec.Command(filepath.Join(programs, "nfsrdmad"), "probe", "--name", host, filepath.Join(dir, "state"))
			probes[i].Stdout, probes[i].Stderr = &reports[i], &errs[i]
			require.NoError(t, probes[i].Start())
		}
		for i, p := range probes {
			require.NoError(t, p.Wait(), "%s", &errs[i])
			for _, want := range []string{
				"ok    flock       seen from the other host",
				"ok    fcntl       seen from the other host",
				"equal inode numbers, different device numbers, no birth times: give each export fsid=",
				"nfsrdmad uses its handle table",
				"ok    cookies     a listing can go on at the other host",
			} {
				assert.Contains(t, reports[i].String(), want)
			}
		}
	})
}
