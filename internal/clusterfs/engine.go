package clusterfs

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// An engine executes all hosts' operations. It has a process of its own: a test that
// executed them itself could wait for itself, since Go starts other programs while
// nothing else runs.
type engine struct {
	options Options
	listen  int // a descriptor

	nodes   nodeTable
	locks   lockTable
	records recordList

	mu       sync.Mutex
	sessions map[*session]struct{}
}

// runEngine serves until standard input is closed.
func runEngine(socket, backing, options string) (err error) {
	e := &engine{sessions: map[*session]struct{}{}}
	if err := json.Unmarshal([]byte(options), &e.options); err != nil {
		return err
	}
	unix.Umask(0)
	e.locks.init()
	if err := e.nodes.init(backing); err != nil {
		return err
	}
	if e.listen, err = listenSocket(socket); err != nil {
		return err
	}
	go e.accept()
	fmt.Print(readyLine)
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func listenSocket(path string) (fd int, err error) {
	fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err = unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err == nil {
		err = unix.Listen(fd, 16)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func (e *engine) accept() {
	for {
		fd, _, err := unix.Accept4(e.listen, unix.SOCK_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "clusterfs: accept:", err)
			os.Exit(1)
		}
		go e.serveConnection(fd)
	}
}

// serveConnection reads a connection's first message: "mount HOST", after which FUSE
// messages follow, or a command for control, which gets a reply when it is done.
func (e *engine) serveConnection(fd int) {
	defer unix.Close(fd)
	buf := make([]byte, 4096)
	n, err := readMessage(fd, buf)
	if err != nil {
		return
	}
	var verb, object string
	var value int64
	fmt.Sscan(string(buf[:n]), &verb, &object, &value)
	if verb == "mount" {
		peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err == nil {
			e.newSession(object, fd, int(peer.Pid)).serve()
		}
	} else if e.control(verb, object, value) {
		writeMessage(fd, []byte("done"))
	}
}

// control executes a command, and reports whether it has succeeded.
func (e *engine) control(verb, object string, value int64) bool {
	switch verb {
	case "fence":
		for _, s := range e.sessionsOf(object) {
			s.giveUp(true)
		}
	case "hold":
		for _, s := range e.sessionsOf(object) {
			s.setHold(hold(value))
		}
	case "delay":
		for _, s := range e.sessionsOf(object) {
			s.setDelay(time.Duration(value))
		}
	case "records":
		return e.records.write(object) == nil
	default:
		return false
	}
	return true
}

func (e *engine) sessionsOf(host string) (list []*session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for s := range e.sessions {
		if s.host == host {
			list = append(list, s)
		}
	}
	return list
}

// readMessage reads a message of a socket or a FUSE device.
func readMessage(fd int, buf []byte) (n int, err error) {
	for {
		if n, err = unix.Read(fd, buf); err != unix.EINTR {
			return n, err
		}
	}
}

// writeMessage writes a message to a socket or a FUSE device.
func writeMessage(fd int, b []byte) (err error) {
	for {
		if _, err = unix.Write(fd, b); err != unix.EINTR {
			return err
		}
	}
}
