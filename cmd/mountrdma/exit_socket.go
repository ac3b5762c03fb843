package main

import (
	"context"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/mountinfo"
)

// The umount command waits until the process that served the mount has exited: only then
// has the server received everything. The kernel does not report that. The serving process
// therefore listens on a socket and never responds; connections to the socket close when the
// process exits.

// exitSocketName returns the name of the socket, which is abstract and not in a directory.
func exitSocketName(device string) string { return "@mountrdma/" + device }

// openExitSocket listens on the socket of the mount.
func (m *mountCommand) openExitSocket() {
	on, found, err := mountinfo.At(m.point)
	if err != nil || !found {
		return // unmounted already
	}
	if m.exitListener, err = net.Listen("unix", exitSocketName(on.Device)); err != nil {
		m.log.Warn("umount will not wait for this process to exit", "err", err)
	}
}

func (m *mountCommand) closeExitSocket() {
	if m.exitListener != nil {
		m.exitListener.Close()
	}
}

// dialExitSocket connects to the socket of a mount, or returns nil if there is none.
func dialExitSocket(device string) net.Conn {
	c, err := net.Dial("unix", exitSocketName(device))
	if err != nil {
		return nil
	}
	if !isTrustedPeer(c.(*net.UnixConn)) {
		c.Close()
		return nil
	}
	return c
}

// awaitExit returns when the listening process has exited.
func awaitExit(ctx context.Context, c net.Conn) error {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	_, _ = io.Copy(io.Discard, c)
	return context.Cause(ctx)
}

// isTrustedPeer reports whether the peer is root or this user. Otherwise any other user
// could listen on that name and make umount wait.
func isTrustedPeer(c *net.UnixConn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	var peer *unix.Ucred
	err2 := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	return err == nil && err2 == nil && (peer.Uid == 0 || int(peer.Uid) == os.Geteuid())
}
