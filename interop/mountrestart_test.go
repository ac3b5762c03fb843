//go:build interop

package interop

import (
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	restartSize = 1 << 30 // bytes of each copy
	restarts    = 10
)

// TestMountRestart copies 1 GiB onto a mount and 1 GiB from it while the daemon
// is stopped and started again, alternately by a crash and as an administrator
// does.
func TestMountRestart(t *testing.T) {
	d := startDaemon(t, "--no-root-squash")
	s := mountServer{addr: d.rdma, guestSite: d.guestSite()}
	from, to := filepath.Join(d.dir, "from"), filepath.Join(d.dir, "to")
	var want string
	logTime(t, "making the file", func() { want = makeLargeFile(t, from) })
	m := s.mountFUSE(t)
	back := filepath.Join(t.TempDir(), "back")

	copies := make(chan error, 2)
	start := time.Now()
	for _, script := range []string{
		fmt.Sprintf("cp %s %s/to", from, m.point), // from the served directory itself, like any file
		fmt.Sprintf("cp %s/from %s", m.point, back),
	} {
		go func() {
			out, err := tryOnHost("/", script)
			if err != nil {
				err = fmt.Errorf("%s: %w\n%s", script, err, outputTail(out))
			}
			t.Logf("%s: %.1f s", script, time.Since(start).Seconds())
			copies <- err
		}()
	}
	for n := range restarts {
		// The restarts are spread over both copies.
		awaitSize(t, (int64(n)+1)*2*restartSize/(restarts+1), to, back)
		if n%2 == 0 {
			d.proc.Kill()
		} else {
			d.stopGracefully()
		}
		d.startProcess()
	}
	for range 2 {
		assert.NoError(t, <-copies)
	}
	logTime(t, "the unmount", m.unmountFUSE)
	logTime(t, "the sums", func() {
		assert.Equal(t, want, hashFile(t, to), "files copied to the mount")
		assert.Equal(t, want, hashFile(t, back), "files copied from the mount")
	})
}

// makeLargeFile makes a file in which no two MiB are equal, and returns its SHA-256.
func makeLargeFile(t *testing.T, name string) string {
	f, err := os.Create(name)
	require.NoError(t, err)
	defer f.Close()
	piece := make([]byte, 1<<20)
	r := rand.NewChaCha8([32]byte{1})
	_, err = r.Read(piece)
	require.NoError(t, err)
	h := sha256.New()
	for n := range restartSize / len(piece) {
		copy(piece, fmt.Sprintf("piece %08d", n))
		_, err := f.Write(piece)
		require.NoError(t, err)
		h.Write(piece)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

func hashFile(t *testing.T, name string) string {
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	require.NoError(t, err)
	assert.EqualValues(t, restartSize, n)
	return fmt.Sprintf("%x", h.Sum(nil))
}

// awaitSize returns when the files have that many bytes together.
func awaitSize(t *testing.T, size int64, files ...string) {
	t.Helper()
	for deadline := time.Now().Add(workLimit); ; time.Sleep(time.Millisecond) {
		var have int64
		for _, name := range files {
			if i, err := os.Stat(name); err == nil {
				have += i.Size()
			}
		}
		if have >= size {
			return
		}
		require.True(t, time.Now().Before(deadline), "%d bytes were copied and not %d", have, size)
	}
}
