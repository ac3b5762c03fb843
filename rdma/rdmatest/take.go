package rdmatest

import (
	"fmt"
	"io"

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// take executes a frame of the peer.
func (c *Conn) take(f frame) error {
	switch f.kind {
	case kindSend:
		return c.takeSend(f)
	case kindWrite:
		return c.regions.use(f.wr.Remote, len(f.data), rdma.RemoteWrite, func(mem []byte) { copy(mem, f.data) })
	case kindRead:
		data := make([]byte, f.length)
		err := c.regions.use(f.wr.Remote, f.length, rdma.RemoteRead, func(mem []byte) { copy(data, mem) })
		if err == nil {
			c.respond(frame{kind: kindResponse, data: data, asked: f.asked})
		}
		return err
	case kindAtomic:
		return c.takeAtomic(f)
	case kindImmediate:
		return c.takeImmediate(f)
	case kindResponse:
		if f.asked.Op == rdma.OpRead {
			copy(f.asked.memory(len(f.data)), f.data)
		}
		f.asked.original = f.original
		return c.handOver(func() { c.finish(f.asked, true) })
	default:
		c.peer.end(io.EOF)
		return io.EOF
	}
}

func (c *Conn) takeAtomic(f frame) error {
	var original uint64
	var unaligned error
	err := c.regions.use(f.wr.Remote, rdma.WordLen, rdma.RemoteAtomic, func(mem []byte) {
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
	c.respond(frame{kind: kindResponse, original: original, asked: f.asked})
	return nil
}

func (c *Conn) takeImmediate(f frame) error {
	if !c.cfg.Immediate {
		return rdma.ErrUnsupportedOp
	}
	if err := c.consume(); err != nil {
		return err
	}
	return c.hand(rdma.Recv{Immediate: f.wr.Immediate, WithImmediate: true, Solicited: f.wr.Solicited})
}

// hand passes a message to the Handler.
func (c *Conn) hand(m rdma.Recv) error {
	return c.handOver(func() { c.cfg.Handler.Receive(m) })
}

// handOver runs f, and returns errRelieved if the reader was relieved
// meanwhile.
func (c *Conn) handOver(f func()) error {
	turn := c.turn.Load()
	f()
	if c.turn.Load() != turn {
		return errRelieved
	}
	return nil
}

// consume takes a posted receive.
func (c *Conn) consume() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.recvs == 0 {
		return ErrNoRecv
	}
	c.recvs--
	return nil
}

func (c *Conn) takeSend(f frame) error {
	if err := c.consume(); err != nil {
		return err
	}
	if len(f.data) > c.cfg.RecvSize {
		return fmt.Errorf("%w: %d bytes of %d", ErrTooLong, len(f.data), c.cfg.RecvSize)
	}
	if f.wr.WithInvalidate && !c.regions.invalidate(f.wr.Invalidate) {
		return fmt.Errorf("%w: invalidated unknown STag %v", ErrAccess, f.wr.Invalidate)
	}
	b := buf.Default.Get(len(f.data))
	copy(b.B, f.data)
	return c.hand(rdma.Recv{
		Buf:         b,
		Invalidated: f.wr.Invalidate, WithInvalidate: f.wr.WithInvalidate, Solicited: f.wr.Solicited,
	})
}

func (c *Conn) respond(f frame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.responses = append(c.responses, f)
	c.cond.Signal()
}
