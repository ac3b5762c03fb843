package rpctls

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// After a handshake of crypto/tls the kernel may take the keys. The bytes of RPC then go
// to the TCP socket itself, and come from it, as those of connections in clear do: the
// kernel makes and opens the records.
//
//	crypto/tls ─▶ secrets ─▶ keys ─▶ socket       once, behind the handshake
//	bytes ◀══════════════════════▶ socket
//	alerts, tickets, KeyUpdate ◀── socket         by control messages
//
// crypto/tls must not have read a byte behind the handshake: wire.exact. No record may have
// been made with the keys yet: tickets are off.

// A kernelConn is a connection whose records the kernel makes. One goroutine at a time
// may read, and one write.
type kernelConn struct {
	tcp    *net.TCPConn
	raw    syscall.RawConn
	server bool
	log    *slog.Logger

	out, in kernelCount // of the writer, of the reader
	vec     kernelRead  // of the reader
	rest    net.Buffers // of the writer: what is not written yet

	end      error // of the reader: why nothing more can be read
	idle     int   // of the reader: records in succession that are not data
	notified atomic.Bool
	patience time.Duration // for the last bytes
}

// A kernelCount bounds the number of records of one direction. It asks the kernel only if
// as many records as bytes would be too many.
type kernelCount struct {
	raw   syscall.RawConn
	suite uint16
	way   direction
	known uint64 // records
	bytes uint64 // since then
}

// reached reports whether the direction has had as many records as limit.
func (c *kernelCount) reached(limit uint64) bool {
	if c.known+c.bytes < limit {
		return false
	}
	n, err := sequenceOf(c.raw, c.suite, c.way)
	if err != nil {
		return true
	}
	c.known, c.bytes = n, 0
	return n >= limit
}

// A kernelRead is a read into several slices.
type kernelRead struct {
	into [][]byte
	n    int
	err  error
	call func(fd uintptr) bool
}

func (r *kernelRead) read(fd uintptr) bool {
	for {
		r.n, r.err = unix.Readv(int(fd), r.into)
		if r.err != unix.EINTR {
			return r.err != unix.EAGAIN
		}
	}
}

// errKernelLost reports that the kernel has the keys of one direction only.
var errKernelLost = errors.New("rpctls: the kernel takes the keys of one direction, and not those of the other")

// enterKernel gives the kernel the keys of a connection. It returns the error of a kernel
// that does not take them; the connection then goes on as before, unless the error is
// errKernelLost.
func enterKernel(nc net.Conn, module string, suite uint16, secrets *trafficSecrets, server bool) (*kernelConn, error) {
	tcp, raw, err := rawTCP(nc)
	if err != nil {
		return nil, err
	}
	var keys [2][]byte
	for i, d := range [2]direction{sending, receiving} {
		if keys[i], err = cryptoInfo(suite, secrets.of(d, server)); err != nil {
			return nil, err
		}
		defer clear(keys[i])
	}
	cerr := raw.Control(func(fd uintptr) {
		if err = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_ULP, module); err != nil {
			return
		}
		if err = setOption(fd, unix.SOL_TLS, int(sending), keys[0]); err != nil {
			return
		}
		if rerr := setOption(fd, unix.SOL_TLS, int(receiving), keys[1]); rerr != nil {
			err = fmt.Errorf("%w: %w", errKernelLost, rerr)
		}
	})
	if err = errors.Join(cerr, err); err != nil {
		return nil, err
	}
	k := &kernelConn{tcp: tcp, raw: raw, server: server, patience: farewell}
	k.out = kernelCount{raw: raw, suite: suite, way: sending}
	k.in = kernelCount{raw: raw, suite: suite, way: receiving}
	k.vec.call = k.vec.read
	return k, nil
}

// Read reads data into p.
func (k *kernelConn) Read(p []byte) (int, error) {
	return k.receive(func() (int, error) { return k.tcp.Read(p) })
}

// ReadBuffers reads data into the slices of v, one after the other, by one system call.
func (k *kernelConn) ReadBuffers(v [][]byte) (int, error) {
	return k.receive(func() (int, error) {
		k.vec.into = v
		err := k.raw.Read(k.vec.call)
		k.vec.into = nil
		switch {
		case err != nil:
			return 0, err
		case k.vec.err != nil:
			return 0, k.vec.err
		case k.vec.n == 0:
			return 0, io.EOF
		}
		return k.vec.n, nil
	})
}

// receive reads, and handles the records in between that are not data, at which the
// kernel stops with EIO. A FIN is no orderly end, as in wire.Read.
func (k *kernelConn) receive(read func() (int, error)) (int, error) {
	for k.end == nil {
		n, err := read()
		if n > 0 {
			k.in.bytes += uint64(n)
			k.idle = 0
		}
		switch {
		case err == io.EOF:
			k.end = errCut
		case errors.Is(err, unix.EIO):
			k.in.bytes++ // a record, too
			k.end = k.control()
		case errors.Is(err, unix.EBADMSG):
			k.end = fmt.Errorf("rpctls: a TLS record from the peer, or from someone on the way, is not what its keys protect: %w", err)
		default:
			return n, err
		}
	}
	return 0, k.end
}

// Messages of handshakes (RFC 8446, Section 4), and alerts (Section 6).
const (
	messageTicket    = 4
	messageKeyUpdate = 24

	alertClose    = 0
	alertCanceled = 90
)

var errIdle = errors.New("rpctls: too many TLS records in succession are not data")

// control handles the next record, which is not data. It returns why the connection ends,
// or nil.
func (k *kernelConn) control() error {
	if k.idle++; k.idle > maxIdle {
		return errIdle
	}
	content := make([]byte, recordRoom)
	kind, n, err := nextRecord(k.raw, content)
	if err != nil {
		return fmt.Errorf("rpctls: a TLS record of the kernel cannot be read: %w", err)
	}
	switch content = content[:n]; {
	case kind == typeAlert && n == 2 && content[1] == alertClose:
		return io.EOF
	case kind == typeAlert && n == 2 && content[1] == alertCanceled:
		return nil // the closure alert follows
	case kind == typeAlert && n == 2:
		return &net.OpError{Op: "remote error", Err: tls.AlertError(content[1])}
	case kind == typeHandshake && n > 0: // RFC 8446, Section 5.1
		return k.handshake(content)
	}
	return fmt.Errorf("rpctls: a TLS record of type %d and %d bytes has no place here", kind, n)
}

// handshake handles messages behind the handshake. New keys would be needed for all that
// comes behind a KeyUpdate, and most kernels cannot change them: the stream has its end
// there, as if the peer had closed it, and another connection takes its place.
func (k *kernelConn) handshake(content []byte) error {
	for len(content) >= 4 {
		n := 4 + int(binary.BigEndian.Uint32(content)&0xffffff)
		switch {
		case content[0] == messageKeyUpdate:
			k.log.Info("the peer changes its keys, which TLS in the kernel cannot: the connection ends", "peer", k.tcp.RemoteAddr())
			return io.EOF
		case content[0] != messageTicket || k.server || n > len(content):
			return fmt.Errorf("rpctls: a message of type %d behind the TLS handshake", content[0])
		}
		content = content[n:]
	}
	if len(content) > 0 {
		return errors.New("rpctls: a part of a message behind the TLS handshake")
	}
	return nil
}

// WriteBuffers writes v, and removes the written bytes from v.
func (k *kernelConn) WriteBuffers(v *net.Buffers) (int64, error) {
	k.rest = *v // v itself would escape to the heap of every caller
	n, err := k.rest.WriteTo(k.tcp)
	*v, k.rest = k.rest, nil
	k.out.bytes += uint64(max(n, 0))
	return n, err
}

// closeWrite sends the closure alert, and then a FIN.
func (k *kernelConn) closeWrite() error {
	_ = k.tcp.SetWriteDeadline(time.Now().Add(k.patience))
	err := k.notify()
	k.settle(func(queued, _ int) bool { return queued == 0 })
	return errors.Join(err, k.tcp.CloseWrite())
}

// close sends the closure alert, and closes the socket.
func (k *kernelConn) close() error {
	_ = k.tcp.SetWriteDeadline(time.Now().Add(k.patience)) // also ends a write under way
	_ = k.notify()                                         // for a peer that listens
	k.settle(func(queued, most int) bool { return queued <= most/2 })
	if err := k.tcp.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil // it was cut
}

func (k *kernelConn) notify() error {
	if k.notified.Swap(true) {
		return nil
	}
	const warning = 1
	return sendRecord(k.raw, typeAlert, []byte{warning, alertClose})
}

// settle waits a short time until the kernel has handed its records to TCP. While TCP has
// no memory for them, they wait apart, and a FIN would overtake them. The kernel hands them
// on when the peer's acknowledgements make room.
func (k *kernelConn) settle(enough func(queued, most int) bool) {
	for until := time.Now().Add(k.patience); !enough(sendQueue(k.raw)) && time.Now().Before(until); {
		time.Sleep(settlePause)
	}
}
