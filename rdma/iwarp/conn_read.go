package iwarp

import (
	"errors"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// Results of receiver.run after which the connection continues.
var (
	// errHandedOff: another goroutine has taken over reading. The caller no
	// longer owns the receiver.
	errHandedOff = errors.New("iwarp: another goroutine has taken over reading")

	// errResting: there is nothing to read, and no partial message is
	// outstanding.
	errResting = errors.New("iwarp: the connection is idle")
)

// runReader runs the connection's own reader. Unless another goroutine takes
// over, the reader closes the connection or leaves it to the workers.
func (c *Conn) runReader(err error) {
	if err == nil {
		err = c.rx.run()
	}
	if c.endReader(err) {
		linkPoller.joinAsWorker()
	}
}

// readLink runs the reader on a worker (linkReader).
func (c *Conn) readLink(w *worker) bool {
	x := &c.rx
	c.sock.tcp.beginTurn()
	x.worker, x.staging = w, w.takeStaging(x.stagingLen)
	err := x.run()
	if err == errHandedOff {
		return false
	}
	if x.worker == nil {
		c.endReader(err)
		return false
	}
	if err != errResting {
		x.leaveWorker() // closing may take long
		c.endReader(err)
		return false
	}
	x.worker, w.staging, x.staging = nil, x.staging, nil
	c.sock.tcp.endTurn()
	return true
}

// endReader runs when a reader that is not a worker is done. It returns true if the connection is
// resting.
func (c *Conn) endReader(err error) bool {
	switch err {
	case errHandedOff:
	case errResting:
		c.rx.releaseStaging()
		c.sock.tcp.startResting()
		return true
	default:
		c.shutDown(err)
	}
	return false
}

// leaveWorker makes the calling worker the connection's own reader, and has
// another worker replace it.
func (x *receiver) leaveWorker() {
	w := x.worker
	x.worker = nil
	x.c.sock.tcp.takeOwnership()
	linkPoller.replaceWorker(w)
}

var _ rdma.ReaderHandoff = (*Conn)(nil)

// HandOffReader makes another goroutine continue reading while Handler.Receive
// or InlineCompleter.CompleteInline runs.
func (c *Conn) HandOffReader() {
	if c.rx.worker != nil {
		c.rx.leaveWorker()
	}
	c.rx.readerTurn.Add(1)
	c.tx.handOffReader()
	go c.runReader(c.rx.pendingErr)
}
