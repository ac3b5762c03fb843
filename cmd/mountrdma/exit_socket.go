package main

import (
	"context"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Who unmounts wants to know when the process that served the mount has ended,
// and with it all that it had to tell the server. The kernel does not say. So
// that process listens on a socket and never answers: connections end with it.

// doorOf is the name of the socket, which is in no directory.
func doorOf(device string) string { return "@mountrdma/" + device }

// openDoor listens at the door of the mount.
func (m *mountCommand) openDoor() {
	on, found, err := mountAt(m.point)
	if err != nil || !found {
		return // it has been unmounted already
	}
	if m.door, err = net.Listen("unix", doorOf(on.device)); err != nil {
		m.log.Warn("umount will not wait", "err", err)
	}
}

func (m *mountCommand) closeDoor() {
	if m.door != nil {
		m.door.Close()
	}
}

// standAt goes to the door of a mount; nil: there is none.
func standAt(device string) net.Conn {
	c, err := net.Dial("unix", doorOf(device))
	if err != nil {
		return nil
	}
	if !trusted(c.(*net.UnixConn)) {
		c.Close()
		return nil
	}
	return c
}

// waitAt returns when the process behind the door has ended.
func waitAt(ctx context.Context, c net.Conn) error {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	_, _ = io.Copy(io.Discard, c)
	return context.Cause(ctx)
}

// trusted tells whether root or this user is at the other end. Anybody can
// listen, and keep others waiting.
func trusted(c *net.UnixConn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	var peer *unix.Ucred
	err2 := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	return err == nil && err2 == nil && (peer.Uid == 0 || int(peer.Uid) == os.Geteuid())
}
