package pingpong

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/roce"
	"github.com/nfsrdma/nfsrdma/rdma/roce/packet"
)

// receiveCount is how many receives are posted: one holds the message being checked
// while the next message may arrive in the other.
const receiveCount = 2

// An endpoint is one end in the exchange.
type endpoint struct {
	ctx     context.Context
	cfg     Config
	dev     *roce.Device
	done    *roce.CompletionQueue
	uc      *roce.UC // either uc or ud is set
	ud      *roce.UD
	to      roce.Destination // destination of ud's messages
	psn     uint32
	head    int // bytes before a message in a receive
	recvs   [receiveCount][]byte
	message []byte // the last message sent
}

// newEndpoint opens the RoCE port at the TCP connection's local address, and posts
// receives.
func newEndpoint(ctx context.Context, cfg Config, conn net.Conn) (e *endpoint, err error) {
	wire, err := roce.ListenUDP(conn.LocalAddr().(*net.TCPAddr).AddrPort().Addr())
	if err != nil {
		return nil, err
	}
	e = &endpoint{
		ctx: ctx, cfg: cfg, dev: roce.Open(wire, roce.Config{}), done: roce.NewCompletionQueue(receiveCount + 1),
		psn: rand.Uint32() & packet.Mask24, message: make([]byte, cfg.Size),
	}
	pd := e.dev.NewProtectionDomain()
	if !cfg.Datagram {
		if e.uc, err = pd.NewUC(roce.UCConfig{Recv: e.done, Recvs: receiveCount}); err == nil {
			err = e.uc.Init()
		}
	} else {
		e.head = roce.GRHLen
		if most := e.dev.MaxPMTU(); cfg.Size > most {
			err = fmt.Errorf("a datagram has %d bytes at most on this network: lower --size", most)
		} else if e.ud, err = pd.NewUD(roce.UDConfig{Recv: e.done, Recvs: receiveCount}); err == nil {
			err = e.ud.Init(queueKey)
		}
	}
	for i := range e.recvs {
		e.recvs[i] = make([]byte, e.head+cfg.Size)
		if err == nil {
			err = e.postReceive(uint64(i))
		}
	}
	if err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

func (e *endpoint) close() { _ = e.dev.Close() } // errors no longer matter

func (e *endpoint) postReceive(i uint64) error {
	wr := roce.Recv{Data: e.recvs[i], ID: i}
	if e.uc != nil {
		return e.uc.PostRecv(wr)
	}
	return e.ud.PostRecv(wr)
}

// runExchange sends and receives all messages. A server sends back the received
// bytes, like rdma-core's.
func (e *endpoint) runExchange() error {
	for i := range e.cfg.Count {
		if e.cfg.Client {
			e.fillMessage(i)
			if err := e.sendMessage(e.message); err != nil {
				return err
			}
		}
		n, c, err := e.receiveMessage(i)
		if err != nil {
			return err
		}
		got := e.recvs[c][e.head:n]
		if err := e.checkMessage(i, got); err != nil {
			return err
		}
		if !e.cfg.Client {
			if err := e.sendMessage(got); err != nil {
				return err
			}
		}
		if err := e.postReceive(c); err != nil {
			return err
		}
	}
	return nil
}

// fillMessage fills the message so that messages differ. One byte per page stays
// zero, because rdma-core's server checks for zeros there.
func (e *endpoint) fillMessage(number int) {
	for i := range e.message {
		e.message[i] = byte(number + i + i>>8)
	}
	for i := 0; i < len(e.message); i += pageSize {
		e.message[i] = 0
	}
}

func (e *endpoint) sendMessage(b []byte) error {
	wr := roce.WR{Op: rdma.OpSend, Data: [][]byte{b}, To: e.to, Done: e.done, ID: receiveCount}
	var err error
	if e.uc != nil {
		err = e.uc.Post(wr)
	} else {
		err = e.ud.Post(wr)
	}
	return err
}

var errLost = errors.New("no message arrived")

// receiveMessage waits for a message. It returns the receive's index, and the
// message's length including the bytes before it.
func (e *endpoint) receiveMessage(number int) (n int, recv uint64, err error) {
	ctx, cancel := context.WithTimeoutCause(e.ctx, e.cfg.Timeout, errLost)
	defer cancel()
	for {
		c, err := e.done.Wait(ctx)
		switch {
		case errors.Is(err, errLost):
			return 0, 0, fmt.Errorf("message %d: no message for %v: it was lost, the other end has another --size, --iters or --mtu, "+
				"or a firewall is in the way (UDP port %d); packets dropped here: %v", number, e.cfg.Timeout, packet.Port, e.droppedPackets())
		case err != nil:
			return 0, 0, err
		case c.Err != nil:
			return 0, 0, c.Err
		case c.Received:
			return c.Bytes, c.ID, nil
		}
	}
}

// droppedPackets lists the dropped packets by reason.
func (e *endpoint) droppedPackets() string {
	var b bytes.Buffer
	for i, n := range e.dev.Stats().Dropped {
		if n > 0 {
			fmt.Fprintf(&b, "%d by %v, ", n, roce.Drop(i))
		}
	}
	if b.Len() == 0 {
		return "none"
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte(", ")))
}

// checkMessage checks a message's length, and with -c its content.
func (e *endpoint) checkMessage(number int, got []byte) error {
	if len(got) != e.cfg.Size {
		return fmt.Errorf("message %d has %d bytes, not %d: give both ends the same --size", number, len(got), e.cfg.Size)
	}
	if !e.cfg.Check {
		return nil
	}
	if e.cfg.Client {
		if !bytes.Equal(got, e.message) {
			return fmt.Errorf("message %d returned with other contents", number)
		}
		return nil
	}
	for i := 0; i < len(got); i += pageSize {
		if got[i] != 0 {
			return fmt.Errorf("message %d has %#x at %d, not 0: give the client -c too", number, got[i], i)
		}
	}
	return nil
}
