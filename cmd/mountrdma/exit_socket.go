package main

import (
	"context"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/mountinfo"
)

// The umount command waits for the process that served the mount to exit: only
// then has the server received everything. The kernel does not report that. The
// serving process therefore listens on a socket and never answers; connections
// to the socket end with the process.

// exitSocket returns the name of the socket, an abstract one outside all
// directories.
func exitSocket(device string) string { return "@mountrdma/" + device }

// openExitSocket listens on the socket of the mount.
func (m *mountCommand) openExitSocket() {
	on, found, err := mountinfo.At(m.point)
	if err != nil || !found {
		return // unmounted already
	}
	if m.exit, err = net.Listen("unix", exitSocket(on.Device)); err != nil {
		m.log.Warn("umount will not wait", "err", err)
	}
}

func (m *mountCommand) closeExitSocket() {
	if m.exit != nil {
		m.exit.Close()
	}
}

// dialExitSocket connects to the socket of a mount, or returns nil if there is none.
func dialExitSocket(device string) net.Conn {
	c, err := net.Dial("unix", exitSocket(device))
	if err != nil {
		return nil
	}
	if !trusted(c.(*net.UnixConn)) {
		c.Close()
		return nil
	}
	return c
}

// awaitExit returns when the process that listens has exited.
func awaitExit(ctx context.Context, c net.Conn) error {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	_, _ = io.Copy(io.Discard, c)
	return context.Cause(ctx)
}

// trusted reports whether the peer is root or this user. Any other user could
// listen on that name and make umount wait.
func trusted(c *net.UnixConn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	var peer *unix.Ucred
	err2 := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	return err == nil && err2 == nil && (peer.Uid == 0 || int(peer.Uid) == os.Geteuid())
}
