//go:build interop

package kerberos

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/gss/krb5"
	"github.com/nfsrdma/nfsrdma/interop"
)

const (
	bootLimit = 5 * time.Minute
	execLimit = 4 * time.Minute

	// gssAddr is where the rpc.gssd of a mount over RDMA makes contexts, whatever
	// the mount says.
	gssAddr = "127.0.0.1:2049"
)

// guestPorts are those of Linux's server: NFS over TCP and RDMA, and MOUNT.
var guestPorts = []int{2049, 20049, 20048}

// A machine is the guest, in a realm with alice and bob. The guest is not that of other
// packages, because a rpc.gssd that runs changes all mounts of version 4: the client then
// identifies itself by Kerberos.
type machine struct {
	*testing.T
	*interop.Guest
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
	build := exec.Command("../guest/build")
	build.Stderr = os.Stderr
	dir, err := build.Output()
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
	if err := populate(l.kdc); err != nil {
		return l, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), bootLimit)
	defer cancel()
	if l.guest, err = interop.Boot(ctx, interop.Options{Dir: strings.TrimSpace(string(dir)), Forward: guestPorts}); err != nil {
		return l, err
	}
	atEnd = append(atEnd, l.guest.Close)
	if err := l.guest.Push(ctx, filepath.Join(bin, "guestwork"), "/bin/guestwork"); err != nil {
		return l, err
	}
	return l, join(ctx, l.guest, l.kdc)
})

// atEnd are called after all tests.
var atEnd []func()

func ended() {
	for _, end := range atEnd {
		end()
	}
}

// populate makes the principals of the users and hosts of the guest's tests. Linux's
// server is localhost, because the guest's ports are those of this host.
func populate(k *KDC) error {
	for _, user := range []string{"alice", "bob"} {
		if err := k.AddUser(user); err != nil {
			return err
		}
	}
	for keytab, services := range map[string][]string{
		"acceptor": {"nfs/server.test.example", "nfs/second.test.example"},
		"machine":  {"host/guest"},
		"knfsd":    {"nfs/localhost"},
	} {
		for _, service := range services {
			if err := k.AddService(keytab, service); err != nil {
				return err
			}
		}
	}
	return nil
}

// join makes a guest a client of a realm: alice and bob get tickets, which rpc.gssd
// finds, and carol gets none.
func join(ctx context.Context, g *interop.Guest, k *KDC) error {
	_, port, err := net.SplitHostPort(k.Addr)
	if err != nil {
		return err
	}
	conf := filepath.Join(scratch, "guest.conf")
	if err := os.WriteFile(conf, []byte(k.ClientConfig("10.0.2.2:"+port)), 0o600); err != nil {
		return err
	}
	for file, path := range map[string]string{
		conf: "/etc/krb5.conf", k.Keytab("machine"): "/etc/krb5.keytab", k.Keytab("knfsd"): "/etc/knfsd.keytab",
	} {
		if err := g.Push(ctx, file, path); err != nil {
			return err
		}
	}
	out, status, err := g.Exec(ctx, fmt.Sprintf(`date -s @%d && chmod 644 /etc/krb5.conf && chmod 600 /etc/*.keytab || exit
		echo 10.0.3.2 second.test.example >>/etc/hosts
		for m in rpcsec_gss_krb5 cts ecb; do modprobe $m || exit; done
		for user in alice bob; do
			su -s /bin/sh -c "echo secret | kinit -c FILE:/tmp/krb5cc_\$(id -u) $user" $user || exit
		done
		rpc.gssd -f -vv -p /var/lib/nfs/rpc_pipefs >/tmp/gssd.log 2>&1 &
		for i in $(seq 100); do
			ls -l /proc/$!/fd | grep -q rpc_pipefs/gssd/ && exit
			usleep 100000
		done
		cat /tmp/gssd.log; exit 1`, time.Now().Unix()))
	if err == nil && status != 0 {
		err = errors.New(out)
	}
	return err
}

// newMachine returns the guest, and its realm.
func newMachine(t *testing.T) (machine, *realm) {
	t.Helper()
	l, err := linux()
	require.NoError(t, err)
	m := machine{t, l.guest}
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := m.try("tail -n 60 /tmp/gssd.log; dmesg | tail -n 30")
			t.Logf("rpc.gssd and the kernel of the guest say:\n%s", out)
		}
	})
	return m, &realm{T: t, kdc: l.kdc}
}

// try runs a script in the guest.
func (m machine) try(script string, args ...any) (out string, status int) {
	m.Helper()
	ctx, cancel := context.WithTimeoutCause(context.Background(), execLimit, fmt.Errorf("not done after %v", execLimit))
	defer cancel()
	out, status, err := m.Exec(ctx, fmt.Sprintf(script, args...))
	require.NoError(m, err, "%s\n%s", script, out)
	return out, status
}

// must runs a script in the guest that must succeed.
func (m machine) must(script string, args ...any) string {
	m.Helper()
	out, status := m.try(script, args...)
	require.Zero(m, status, "%s\n%s", fmt.Sprintf(script, args...), out)
	return out
}

// as runs a command as a user of the guest.
func (m machine) as(user, command string, args ...any) (out string, status int) {
	m.Helper()
	return m.try("su -s /bin/sh -c '%s' %s", fmt.Sprintf(command, args...), user)
}

// may runs a command as a user of the guest, which must succeed.
func (m machine) may(user, command string, args ...any) {
	m.Helper()
	out, status := m.as(user, command, args...)
	assert.Zero(m, status, "%s, as %s: %s", fmt.Sprintf(command, args...), user, out)
}

// mayNot runs a command as a user of the guest, which must be refused.
func (m machine) mayNot(user, command string, args ...any) {
	m.Helper()
	out, status := m.as(user, command, args...)
	assert.NotZero(m, status, "%s, as %s", fmt.Sprintf(command, args...), user)
	assert.Regexp(m, "Permission denied|Operation not permitted", out)
}

// mount mounts until the test ends or the guest unmounts.
func (m machine) mount(source, point, options string) {
	m.Helper()
	m.must("mkdir -p %[2]s; mount.nfs %[1]s %[2]s -o %[3]s", source, point, options)
	m.Cleanup(func() {
		if m.Failed() {
			m.try("umount -f %[1]s; umount -l %[1]s; :", point)
		}
	})
}

// locker starts a process of a user in the guest, which does what it is told with the
// file "locked" of a directory (package locking), and answers. end closes the file.
func (m machine) locker(user, dir string) (do func(command string) string, end func()) {
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
