//go:build interop

package interop

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// hostEthernet is the host's address on the network of guestEthernet.
const hostEthernet = "10.0.4.2"

// An ethernetNamespace is a network namespace with the guest's eth2 at the other end of
// its one wire: no address is translated, every port is free, and broadcasts
// and multicasts reach both.
//
//	namespace: 10.0.4.2 tap0 ---- qemu ---- eth2 10.0.4.15 :guest
type ethernetNamespace struct{ ns, tap *os.File }

func newEthernet() (*ethernetNamespace, error) {
	var e ethernetNamespace
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread is of no other use
		made <- e.enterNamespace()
	}()
	return &e, <-made
}

// enterNamespace moves the thread to a namespace with the TAP device.
func (e *ethernetNamespace) enterNamespace() (err error) {
	if err = unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	if e.ns, err = os.Open("/proc/thread-self/ns/net"); err != nil {
		return err
	}
	e.tap, err = newTap("tap0", hostEthernet)
	return err
}

// newTap makes a TAP device with an address in the thread's namespace.
func newTap(name, addr string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("/dev/net/tun: %w", err)
	}
	return os.NewFile(uintptr(fd), name), netDevice(fd, name, unix.IFF_TAP, netip.MustParseAddr(addr), 1500)
}

// addWire makes a wire for another guest, whose end in the namespace has an address.
func (e *ethernetNamespace) addWire(t *testing.T, name, addr string) (tap *os.File) {
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread is of no other use
		err := unix.Setns(int(e.ns.Fd()), unix.CLONE_NEWNET)
		if err == nil {
			tap, err = newTap(name, addr)
		}
		made <- err
	}()
	require.NoError(t, <-made)
	t.Cleanup(func() { tap.Close() })
	return tap
}

// inNamespace returns a program that runs the given program in the namespace.
func (e *ethernetNamespace) inNamespace(t testing.TB, program string) string {
	file := filepath.Join(t.TempDir(), filepath.Base(program))
	script := fmt.Sprintf("#!/bin/sh\nexec nsenter --net=/proc/%d/fd/%d %s \"$@\"\n", os.Getpid(), e.ns.Fd(), program)
	require.NoError(t, os.WriteFile(file, []byte(script), 0o755))
	return file
}

func (e *ethernetNamespace) closeNamespace() {
	if e != nil {
		e.tap.Close()
		e.ns.Close()
	}
}
