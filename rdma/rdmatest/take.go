package rdmatest

import (
	"fmt"
	"io"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// executeFrame executes a frame from the peer.
func (c *Conn) executeFrame(f frame) error {
	switch f.kind {
	case kindSend:
		return c.receiveSend(f)
	case kindWrite:
		return c.regions.withMemory(f.wr.Remote, len(f.data), rdma.RemoteWrite, func(mem []byte) { copy(mem, f.data) })
	case kindRead:
		data := make([]byte, f.length)
		err := c.regions.withMemory(f.wr.Remote, f.length, rdma.RemoteRead, func(mem []byte) { copy(data, mem) })
		if err == nil {
			c.queueResponse(frame{kind: kindResponse, data: data, request: f.request})
		}
		return err
	case kindAtomic:
		return c.receiveAtomic(f)
	case kindImmediate:
		return c.receiveImmediate(f)
	case kindResponse:
		if f.request.Op == rdma.OpRead {
			copy(f.request.destination(len(f.data)), f.data)
		}
		f.request.original = f.original
		return c.callUpperLayer(func() { c.finishRequest(f.request, true) })
	default:
		c.peer.shutDown(io.EOF)
		return io.EOF
	}
}

func (c *Conn) receiveAtomic(f frame) error {
	var original uint64
	var unaligned error
	err := c.regions.withMemory(f.wr.Remote, rdma.WordLen, rdma.RemoteAtomic, func(mem []byte) {
		word, err := rdma.Word(mem, 0)
		if unaligned = err; err == nil {
			original = f.wr.Atomic.Do(f.wr.Op, word)
		}
	})
	switch {
	case err != nil:
		return err
	case unaligned != nil:
		return fmt.Errorf("%w: %w", ErrUnaligned, unaligned)
	}
	c.queueResponse(frame{kind: kindResponse, original: original, request: f.request})
	return nil
}

func (c *Conn) receiveImmediate(f frame) error {
	if !c.cfg.Immediate {
		return rdma.ErrUnsupportedOp
	}
	if err := c.consumeRecv(); err != nil {
		return err
	}
	return c.deliverMessage(rdma.Recv{Immediate: f.wr.Immediate, WithImmediate: true, Solicited: f.wr.Solicited})
}

// deliverMessage passes a message to the Handler.
func (c *Conn) deliverMessage(m rdma.Recv) error {
	return c.callUpperLayer(func() { c.cfg.Handler.Receive(m) })
}

// callUpperLayer runs f, and returns errHandedOff if another goroutine took
// over reading while f ran.
func (c *Conn) callUpperLayer(f func()) error {
	turn := c.readerTurn.Load()
	f()
	if c.readerTurn.Load() != turn {
		return errHandedOff
	}
	return nil
}

// consumeRecv uses up a posted receive.
func (c *Conn) consumeRecv() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.recvs == 0 {
		return ErrNoRecv
	}
	c.recvs--
	return nil
}

func (c *Conn) receiveSend(f frame) error {
	if err := c.consumeRecv(); err != nil {
		return err
	}
	if len(f.data) > c.cfg.RecvSize {
		return fmt.Errorf("%w: %d bytes of %d", ErrTooLong, len(f.data), c.cfg.RecvSize)
	}
	if f.wr.WithInvalidate && !c.regions.removeRegion(f.wr.Invalidate) {
		return fmt.Errorf("%w: invalidated unknown STag %v", ErrAccess, f.wr.Invalidate)
	}
	b := buf.Default.Get(len(f.data))
	copy(b.B, f.data)
	return c.deliverMessage(rdma.Recv{
		Buf:         b,
		Invalidated: f.wr.Invalidate, WithInvalidate: f.wr.WithInvalidate, Solicited: f.wr.Solicited,
	})
}

func (c *Conn) queueResponse(f frame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.responses = append(c.responses, f)
	c.cond.Signal()
}
