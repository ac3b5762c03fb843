package cli

import (
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// removeTimeout is how long removeStored waits for the service manager.
const removeTimeout = 5 * time.Second

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
	_ = r.SetReadDeadline(time.Now().Add(removeTimeout))
	_, _ = r.Read(make([]byte, 1)) // returns when the manager closes its descriptor
}

// notifyManager sends a notification with descriptors to the service manager, if any,
// and reports whether it was sent.
func notifyManager(state string, fds ...int) bool {
	name := os.Getenv("NOTIFY_SOCKET")
	if name == "" {
		return false
	}
	c, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(c)
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	return unix.Sendmsg(c, []byte(state), rights, &unix.SockaddrUnix{Name: name}, 0) == nil
}
