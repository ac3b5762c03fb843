package iwarp

import (
	"errors"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// Results of receiver.run that do not end the connection.
var (
	// errRelieved: another goroutine reads on. The caller owns nothing any more.
	errRelieved = errors.New("iwarp: another goroutine reads on")

	// errRests: there is nothing to read, and the peer owes nothing.
	errRests = errors.New("iwarp: the connection rests")
)

// read runs a reader of the connection's own. A reader that is not relieved
// ends the connection, or leaves it to the workers.
func (c *Conn) read(err error) {
	if err == nil {
		err = c.rx.run()
	}
	if c.leave(err) {
		idle.join()
	}
}

// serve runs a reader on a worker (turnTaker).
func (c *Conn) serve(w *worker) bool {
	x := &c.rx
	c.sock.tcp.take()
	x.worker, x.staging = w, w.lend(x.room)
	err := x.run()
	if err == errRelieved {
		return false
	}
	if x.worker == nil {
		c.leave(err)
		return false
	}
	if err != errRests {
		x.leaveWorker() // the end may take long
		c.leave(err)
		return false
	}
	x.worker, w.staging, x.staging = nil, x.staging, nil
	c.sock.tcp.settle()
	return true
}

// leave is the last duty of a reader that is no worker. It returns true if the
// connection rests.
func (c *Conn) leave(err error) bool {
	switch err {
	case errRelieved:
	case errRests:
		c.rx.unstage()
		c.sock.tcp.rest()
		return true
	default:
		c.finish(err)
	}
	return false
}

// leaveWorker makes the calling worker the connection's own reader. Another
// worker takes its place.
func (x *receiver) leaveWorker() {
	x.worker = nil
	x.c.sock.tcp.own()
	idle.resign()
}

var _ rdma.ReaderHandoff = (*Conn)(nil)

// HandOffReader has another goroutine continue to read while Handler.Receive or
// InlineCompleter.CompleteInline runs.
func (c *Conn) HandOffReader() {
	if c.rx.worker != nil {
		c.rx.leaveWorker()
	}
	c.rx.turn.Add(1)
	c.tx.handOffReader()
	go c.read(c.rx.due)
}
