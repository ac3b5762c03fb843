package certauth

import (
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestRenewTogether has commands renew at the same time, when both certificates are due: one of them
// does, the others find nothing due, and the files are whole at each moment.
func TestRenewTogether(t *testing.T) {
	clock, dir := newClock(), filepath.Join(t.TempDir(), "tls")
	_, err := Create(dir, []string{"server"}, false, clock.now)
	require.NoError(t, err)
	clock.Time = clock.Add((authorityDays - 2*hostDays) * day).Add(day)

	stop, watched := make(chan struct{}), make(chan error, 1)
	go func() {
		var err error
		for err == nil {
			select {
			case <-stop:
				watched <- nil
				return
			default:
				_, _, _, err = readOwn(dir)
			}
		}
		watched <- err
	}()
	var commands []*Authority
	for range 8 {
		commands = append(commands, mustOpen(t, dir, clock))
	}
	counts, together := make([]int, len(commands)), new(sync.WaitGroup)
	for i, a := range commands {
		together.Go(func() {
			renewed, err := a.Renew(false)
			assert.NoError(t, err)
			counts[i] = len(renewed)
		})
	}
	together.Wait()
	close(stop)
	require.NoError(t, <-watched)
	assert.ElementsMatch(t, []int{2, 0, 0, 0, 0, 0, 0, 0}, counts)
	checkWhole(t, dir, clock)
}

// TestIssueTogether has bundles created while the server's certificate is renewed again and again:
// each bundle is whole, also those of one client.
func TestIssueTogether(t *testing.T) {
	clock, dir := newClock(), filepath.Join(t.TempDir(), "tls")
	_, err := Create(dir, []string{"server"}, false, clock.now)
	require.NoError(t, err)
	var together sync.WaitGroup
	for range 8 {
		a, b := mustOpen(t, dir, clock), mustOpen(t, dir, clock)
		together.Go(func() {
			_, err := a.Renew(true)
			assert.NoError(t, err)
		})
		together.Go(func() {
			bundle, _, err := b.IssueClient("laptop")
			assert.NoError(t, err)
			files, _ := extract(t, bundle)
			assert.NoError(t, verify(t, parse(t, files["tls-client/client.pem"]), parse(t, files["tls-client/ca.pem"]), x509.ExtKeyUsageClientAuth, clock.Time))
		})
	}
	together.Wait()
	checkWhole(t, dir, clock)
}

// TestRenewWaits checks that a command waits for another one, and then sees what that has written.
func TestRenewWaits(t *testing.T) {
	clock, dir := newClock(), filepath.Join(t.TempDir(), "tls")
	_, err := Create(dir, []string{"server"}, false, clock.now)
	require.NoError(t, err)
	a := mustOpen(t, dir, clock)
	other, err := Create(filepath.Join(t.TempDir(), "tls"), []string{"server"}, false, clock.now)
	require.NoError(t, err)
	unlock, err := lockDir(dir)
	require.NoError(t, err)
	renewed := make(chan error)
	go func() {
		_, err := a.Renew(true)
		renewed <- err
	}()
	for _, name := range []string{caCert, caKey, serverCert, serverKey} {
		content, err := os.ReadFile(other.path(name))
		require.NoError(t, err)
		require.NoError(t, a.writeFile(name, content))
	}
	select {
	case err := <-renewed:
		assert.Fail(t, "it has not waited", "%v", err)
	default:
	}
	unlock()
	require.NoError(t, <-renewed)
	checkWhole(t, dir, clock)
	assert.True(t, isFree(t, dir))
}

// checkWhole checks that the files in dir belong together, and that no others were left.
func checkWhole(t *testing.T, dir string, clock *testClock) {
	t.Helper()
	ca, server, _, err := readOwn(dir)
	require.NoError(t, err)
	assert.NoError(t, verify(t, server, ca, x509.ExtKeyUsageServerAuth, clock.Time))
	key, err := readKey(filepath.Join(dir, serverKey))
	require.NoError(t, err)
	assert.True(t, key.PublicKey.Equal(server.PublicKey))
	left, err := filepath.Glob(filepath.Join(dir, "*.new"))
	require.NoError(t, err)
	assert.Empty(t, left)
}

// TestCreateTogether checks that of several commands that create one directory, with and without
// force, one does, and the others change nothing.
func TestCreateTogether(t *testing.T) {
	for _, force := range []bool{false, true} {
		t.Run(fmt.Sprintf("force=%v", force), func(t *testing.T) {
			clock, dir := newClock(), filepath.Join(t.TempDir(), "tls")
			if force {
				_, err := Create(dir, []string{"server"}, false, clock.now)
				require.NoError(t, err)
			}
			var created atomic.Int32
			var together sync.WaitGroup
			for range 8 {
				together.Go(func() {
					if _, err := Create(dir, []string{"server"}, force, clock.now); err == nil {
						created.Add(1)
					} else {
						assert.ErrorContains(t, err, dir)
					}
				})
			}
			together.Wait()
			assert.EqualValues(t, 1, created.Load())
			checkWhole(t, dir, clock)
			mustOpen(t, dir, clock)
			names, err := filepath.Glob(dir + "*")
			require.NoError(t, err)
			assert.Equal(t, map[bool][]string{false: {dir}, true: {dir, dir + ".old"}}[force], names)
		})
	}
}

// TestLockMoved checks that a command that has waited while another one moved the directory locks the
// one that has replaced it.
func TestLockMoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tls")
	require.NoError(t, os.Mkdir(dir, 0o700))
	unlock, err := lockDir(dir)
	require.NoError(t, err)
	locked := make(chan func())
	go func() {
		unlock, err := lockDir(dir)
		assert.NoError(t, err)
		locked <- unlock
	}()
	info, err := os.Stat(dir)
	require.NoError(t, err)
	waits := regexp.MustCompile(fmt.Sprintf(`-> FLOCK .*:%d `, info.Sys().(*syscall.Stat_t).Ino))
	for all := []byte(nil); !waits.Match(all); {
		all, err = os.ReadFile("/proc/locks")
		require.NoError(t, err)
	}
	require.NoError(t, os.Rename(dir, dir+".old"))
	require.NoError(t, os.Mkdir(dir, 0o700))
	unlock()
	unlock = <-locked
	assert.False(t, isFree(t, dir))
	assert.True(t, isFree(t, dir+".old"))
	unlock()
	assert.True(t, isFree(t, dir))
}

// isFree reports whether a directory is not locked.
func isFree(t *testing.T, dir string) bool {
	t.Helper()
	d, err := os.Open(dir)
	require.NoError(t, err)
	defer d.Close()
	return unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
}
