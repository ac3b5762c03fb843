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
// epoll_wait, and answers each request by one call to read and one to write. Each
// end has a thread for each CPU, with its share of the connections.

// Bytes of a GETATTR and of its reply on the wire, about.
const (
	askSize    = 192
	answerSize = 168
)

// pongServer answers ping-pongs. It has no arguments.
func pongServer([]string) error {
	l, err := listen()
	if err != nil {
		return err
	}
	loops, failed := make([]*loop, runtime.NumCPU()), make(chan error, runtime.NumCPU())
	for i := range loops {
		if loops[i], err = newLoop(askSize, answerSize); err != nil {
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

// pongClient sends requests on some connections, one at a time on each. Its
// arguments are the server's address, BUSY/ALL connections, and the time.
func pongClient(args []string) error {
	busy, all, err := busyOf(args[1])
	if err != nil {
		return err
	}
	return exchange(busy, all, args[2], func() (*loop, error) { return newLoop(answerSize, askSize) }, func() (net.Conn, error) { return dial(args[0]) })
}

// busyOf reads BUSY/ALL.
func busyOf(word string) (busy, all int, err error) {
	b, a, _ := strings.Cut(word, "/")
	busy, berr := strconv.Atoi(b)
	all, aerr := strconv.Atoi(a)
	return busy, all, errors.Join(berr, aerr)
}

// exchange sends messages on some of all connections, and waits for the answer to each before
// the next one on that connection, for a time.
func exchange(busy, all int, d string, newLoop func() (*loop, error), dial func() (net.Conn, error)) error {
	loops := make([]*loop, runtime.NumCPU())
	if busy < len(loops) || busy > all {
		return fmt.Errorf("%d/%d: of BUSY/ALL connections, at least %d must be busy", busy, all, len(loops))
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
			first <- errors.Join(l.begin(), l.run(func() bool {
				mu.Lock()
				defer mu.Unlock()
				return k.tick(len(l.in))
			}))
		})
	}
	ends.Wait()
	for range loops {
		if err := <-first; err != nil {
			return err
		}
	}
	return k.print()
}

// A loop reads messages of one length from its sockets, and sends one of another
// length for each.
type loop struct {
	epoll   int
	busy    []int // sockets that begin
	in, out []byte

	// stamp, if not nil, completes out before it is sent on a socket, and check examines
	// what was read from one.
	stamp func(fd int, out []byte)
	check func(fd int, in []byte) error
}

func newLoop(in, out int) (*loop, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	return &loop{epoll: fd, in: make([]byte, in), out: make([]byte, out)}, os.NewSyscallError("epoll_create1", err)
}

// add takes over nc, which begins with a message if busy is set.
func (l *loop) add(nc net.Conn, busy bool) error {
	b, err := newBlocking(nc)
	if err != nil {
		return err
	}
	if busy {
		l.busy = append(l.busy, b.fd)
	}
	ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(b.fd)}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, b.fd, &ev))
}

// begin sends a message on each busy socket.
func (l *loop) begin() error {
	for _, fd := range l.busy {
		if err := l.send(fd); err != nil {
			return err
		}
	}
	return nil
}

// run answers messages until more returns false, or nothing is left to wait for.
func (l *loop) run(more func() bool) error {
	runtime.LockOSThread()
	var events [128]unix.EpollEvent
	for {
		n, err := unix.EpollWait(l.epoll, events[:], -1)
		if err != nil && err != unix.EINTR {
			return os.NewSyscallError("epoll_wait", err)
		}
		for _, ev := range events[:max(n, 0)] {
			switch err := l.answer(int(ev.Fd)); {
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

// answer takes a message and sends one.
func (l *loop) answer(fd int) error {
	n, err := unix.Read(fd, l.in)
	if n == 0 || err == unix.ECONNRESET {
		return io.EOF
	}
	if err != nil {
		return os.NewSyscallError("read", err)
	}
	if n < len(l.in) {
		return fmt.Errorf("%d bytes of a message of %d", n, len(l.in))
	}
	if l.check != nil {
		if err := l.check(fd, l.in); err != nil {
			return err
		}
	}
	return l.send(fd)
}

// send sends a message.
func (l *loop) send(fd int) error {
	if l.stamp != nil {
		l.stamp(fd, l.out)
	}
	_, err := unix.Write(fd, l.out)
	if err == unix.EPIPE || err == unix.ECONNRESET {
		return io.EOF // the peer has ended
	}
	return os.NewSyscallError("write", err)
}
