//go:build interop

package kerberos

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/interop"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/krb5"
)

const (
	bootLimit = 5 * time.Minute

	// gssAddr is where the rpc.gssd of a mount over RDMA makes contexts, whatever
	// the mount says.
	gssAddr = "127.0.0.1:2049"
)

// guestPorts are those of Linux's server: NFS over TCP and RDMA, and MOUNT.
var guestPorts = []int{2049, 20049, 20048}

// A kerberosGuest is the guest, in a realm with alice and bob. The guest is not that of
// other packages, because a rpc.gssd that runs changes all mounts over NFSv4: the client
// then identifies itself by Kerberos.
type kerberosGuest struct{ interop.Machine }

// withTest returns the machine in a test of its own.
func (m kerberosGuest) withTest(t *testing.T) kerberosGuest {
	return kerberosGuest{interop.Machine{T: t, Guest: m.Guest}}
}

// linux boots the guest of all tests, with a KDC of its own.
var linux = sync.OnceValues(func() (l struct {
	kdc   *KDC
	guest *interop.Guest
}, err error,
) {
	if os.Getuid() != 0 {
		return l, errors.New("this test needs root: the daemon makes files of several owners")
	}
	bin, err := programs()
	if err != nil {
		return l, err
	}
	dir, err := interop.BuildGuest(context.Background(), "../guest/build")
	if err != nil {
		return l, err
	}
	realm := filepath.Join(scratch, "realm")
	if err := os.Mkdir(realm, 0o755); err != nil {
		return l, err
	}
	if l.kdc, err = StartKDC(realm, enctypes[krb5.AES256SHA1]); err != nil {
		return l, err
	}
	atEnd = append(atEnd, l.kdc.Kill)
	if err := l.kdc.Populate(); err != nil {
		return l, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), bootLimit)
	defer cancel()
	if l.guest, err = interop.Boot(ctx, interop.Options{Dir: dir, Forward: guestPorts}); err != nil {
		return l, err
	}
	atEnd = append(atEnd, l.guest.Close)
	if err := l.guest.Push(ctx, filepath.Join(bin, "guestwork"), "/bin/guestwork"); err != nil {
		return l, err
	}
	return l, l.kdc.Join(ctx, l.guest)
})

// atEnd are called after all tests.
var atEnd []func()

func runCleanups() {
	for _, end := range atEnd {
		end()
	}
}

// newMachine returns the guest, and its realm.
func newMachine(t *testing.T) (kerberosGuest, *testRealm) {
	t.Helper()
	l, err := linux()
	require.NoError(t, err)
	m := kerberosGuest{interop.Machine{T: t, Guest: l.guest}}
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := m.Try("tail -n 60 /tmp/gssd.log; dmesg | tail -n 30")
			t.Logf("rpc.gssd and the kernel of the guest say:\n%s", out)
		}
	})
	return m, &testRealm{T: t, kdc: l.kdc}
}

// startLocker starts a process of a user in the guest, which does what it is told with the
// file "locked" of a directory (package locking), and answers. end closes the file.
func (m kerberosGuest) startLocker(user, dir string) (do func(command string) string, end func()) {
	m.Helper()
	s, err := m.Open(m.Context(), fmt.Sprintf("exec su -s /bin/sh -c 'exec guestwork locker %s' %s", dir, user))
	require.NoError(m, err)
	m.Cleanup(s.Close)
	answers := bufio.NewScanner(s)
	do = func(command string) string {
		m.Helper()
		_, err := fmt.Fprintln(s, command)
		require.NoError(m, err)
		require.True(m, answers.Scan(), "%s: %v", command, answers.Err())
		return answers.Text()
	}
	return do, func() {
		m.Helper()
		require.NoError(m, s.CloseWrite())
		for answers.Scan() {
			m.Errorf("the process says %q", answers.Text())
		}
		require.NoError(m, answers.Err())
	}
}

// portOf returns the port of an address.
func portOf(t *testing.T, addr string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	return port
}
