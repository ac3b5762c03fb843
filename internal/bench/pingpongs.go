package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Many connections, a few of them busy: the limit is a server that only waits in
// epoll_wait, and answers each request with one read and one write system call.
// Each end has a thread for each CPU, with its share of the connections.

// Approximate sizes in bytes for a GETATTR and its reply on the wire.
const (
	requestSize = 192
	replySize   = 168
)

// runPongServer answers ping-pongs. It has no arguments.
func runPongServer([]string) error {
	l, err := listenReno()
	if err != nil {
		return err
	}
	loops, failed := make([]*echoLoop, runtime.NumCPU()), make(chan error, runtime.NumCPU())
	for i := range loops {
		if loops[i], err = newEchoLoop(requestSize, replySize); err != nil {
			return err
		}
		go func() { failed <- loops[i].run(func() bool { return true }) }()
	}
	fmt.Printf("ready tcp=%s\n", l.Addr())
	go func() {
		for i := 0; ; i++ {
			nc, err := l.Accept()
			if err == nil {
				err = loops[i%len(loops)].add(nc, false)
			}
			if err != nil {
				failed <- err
				return
			}
		}
	}()
	return <-failed
}

// runPongClient sends requests on some connections, one at a time on each. Its
// arguments are the server's address, BUSY/ALL connections, and the time.
func runPongClient(args []string) error {
	busy, all, err := parseBusy(args[1])
	if err != nil {
		return err
	}
	return exchangeMessages(busy, all, args[2], func() (*echoLoop, error) { return newEchoLoop(replySize, requestSize) }, func() (net.Conn, error) { return dialReno(args[0]) })
}

// parseBusy parses BUSY/ALL.
func parseBusy(word string) (busy, all int, err error) {
	b, a, _ := strings.Cut(word, "/")
	busy, berr := strconv.Atoi(b)
	all, aerr := strconv.Atoi(a)
	return busy, all, errors.Join(berr, aerr)
}

// exchangeMessages opens all connections, and sends messages on the first busy ones
// for the time d. Before each message it waits for the reply to the previous one on
// that connection.
func exchangeMessages(busy, all int, d string, newLoop func() (*echoLoop, error), dial func() (net.Conn, error)) error {
	loops := make([]*echoLoop, runtime.NumCPU())
	if busy < len(loops) || busy > all {
		return fmt.Errorf("%d/%d: at least %d of the BUSY/ALL connections must be busy", busy, all, len(loops))
	}
	for i := range loops {
		l, err := newLoop()
		if err != nil {
			return err
		}
		loops[i] = l
	}
	for i := range all {
		nc, err := dial()
		if err == nil {
			err = loops[i%len(loops)].add(nc, i < busy)
		}
		if err != nil {
			return err
		}
	}
	k, err := startClock(d)
	if err != nil {
		return err
	}
	var (
		mu    sync.Mutex // guards the clock
		ends  sync.WaitGroup
		first = make(chan error, len(loops))
	)
	for _, l := range loops {
		ends.Go(func() {
			first <- errors.Join(l.sendFirst(), l.run(func() bool {
				mu.Lock()
				defer mu.Unlock()
				return k.recordOp(len(l.in))
			}))
		})
	}
	ends.Wait()
	for range loops {
		if err := <-first; err != nil {
			return err
		}
	}
	return k.printResult()
}

// An echoLoop reads fixed-length messages from its sockets, and sends one with
// another fixed length for each.
type echoLoop struct {
	epoll      int
	initiators []int // sockets that send first
	in, out    []byte

	// stamp, if not nil, completes out before it is sent on a socket, and check examines
	// what was read from one.
	stamp func(fd int, out []byte)
	check func(fd int, in []byte) error
}

func newEchoLoop(in, out int) (*echoLoop, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	return &echoLoop{epoll: fd, in: make([]byte, in), out: make([]byte, out)}, os.NewSyscallError("epoll_create1", err)
}

// add takes ownership of nc, and sends the first message on it if busy is set.
func (l *echoLoop) add(nc net.Conn, busy bool) error {
	b, err := newBlocking(nc)
	if err != nil {
		return err
	}
	if busy {
		l.initiators = append(l.initiators, b.fd)
	}
	ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(b.fd)}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, b.fd, &ev))
}

// sendFirst sends a message on each busy socket.
func (l *echoLoop) sendFirst() error {
	for _, fd := range l.initiators {
		if err := l.sendMessage(fd); err != nil {
			return err
		}
	}
	return nil
}

// run answers messages until more returns false.
func (l *echoLoop) run(more func() bool) error {
	runtime.LockOSThread()
	var events [128]unix.EpollEvent
	for {
		n, err := unix.EpollWait(l.epoll, events[:], -1)
		if err != nil && err != unix.EINTR {
			return os.NewSyscallError("epoll_wait", err)
		}
		for _, ev := range events[:max(n, 0)] {
			switch err := l.handleMessage(int(ev.Fd)); {
			case err == io.EOF:
				_ = unix.Close(int(ev.Fd))
			case err != nil:
				return err
			case !more():
				return nil
			}
		}
	}
}

// handleMessage reads a message and sends one.
func (l *echoLoop) handleMessage(fd int) error {
	n, err := unix.Read(fd, l.in)
	if n == 0 || err == unix.ECONNRESET {
		return io.EOF
	}
	if err != nil {
		return os.NewSyscallError("read", err)
	}
	if n < len(l.in) {
		return fmt.Errorf("%d bytes of a %d-byte message", n, len(l.in))
	}
	if l.check != nil {
		if err := l.check(fd, l.in); err != nil {
			return err
		}
	}
	return l.sendMessage(fd)
}

// sendMessage sends a message on a socket.
func (l *echoLoop) sendMessage(fd int) error {
	if l.stamp != nil {
		l.stamp(fd, l.out)
	}
	_, err := unix.Write(fd, l.out)
	if err == unix.EPIPE || err == unix.ECONNRESET {
		return io.EOF // the peer has exited
	}
	return os.NewSyscallError("write", err)
}
