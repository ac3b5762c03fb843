package cli

import (
	"cmp"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// managerTimeout is how long the program waits for the service manager.
const managerTimeout = 5 * time.Second

// maxStoredName is the maximum length of a name in the store, in bytes. The manager
// renames files with longer names, so the next start would not find them.
const maxStoredName = 255

// storeSocket puts a socket into the service manager's file descriptor store
// (sd_notify(3)). Without a manager or a store, it does nothing.
func storeSocket(name string, l *net.TCPListener) {
	if len(name) > maxStoredName {
		return
	}
	raw, err := l.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { notifyManager("FDSTORE=1\nFDPOLL=0\nFDNAME="+name, int(fd)) })
}

// removeStored removes a socket from the service manager's store and waits until it is
// closed, because the caller may need its port.
func removeStored(name string) {
	if !notifyManager("FDSTOREREMOVE=1\nFDNAME=" + name) {
		return
	}
	r, w, err := os.Pipe()
	if err != nil {
		return
	}
	defer r.Close()
	notifyManager("BARRIER=1", int(w.Fd()))
	w.Close()
	_ = r.SetReadDeadline(time.Now().Add(managerTimeout))
	_, _ = r.Read(make([]byte, 1)) // returns when the manager closes its descriptor
}

// notifyManager sends a notification with descriptors to the service manager, if any,
// and reports whether it was sent.
func notifyManager(state string, fds ...int) bool {
	sent, err := sendToManager(managerTimeout, state, fds...)
	return sent && err == nil
}

// NotifyManager sends assignments, one per line, to the service manager (sd_notify(3)).
// Without a manager, it does nothing. A manager that takes nothing for 5 seconds is an error.
func NotifyManager(assignments ...string) error {
	_, err := sendToManager(managerTimeout, strings.Join(assignments, "\n"))
	return err
}

// sendToManager sends a notification with descriptors, and reports whether there is a manager.
func sendToManager(timeout time.Duration, state string, fds ...int) (is bool, err error) {
	name := os.Getenv("NOTIFY_SOCKET")
	if name == "" {
		return false, nil
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return true, err
	}
	defer c.Close()
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	_ = c.SetWriteDeadline(time.Now().Add(timeout))
	raw, err := c.SyscallConn()
	if err != nil {
		return true, err
	}
	var failure error
	err = raw.Write(func(fd uintptr) bool { // WriteMsgUnix rejects connected sockets
		failure = unix.Sendmsg(int(fd), []byte(state), rights, nil, 0)
		return failure != unix.EAGAIN
	})
	return true, cmp.Or(err, failure)
}
