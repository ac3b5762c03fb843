package certauth

import (
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"sync"
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
	d, err := os.Open(dir)
	require.NoError(t, err)
	defer d.Close()
	assert.False(t, errors.Is(unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK), "the lock is free again")
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
