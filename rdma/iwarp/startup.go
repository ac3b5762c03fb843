package iwarp

import (
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/nfsrdma/nfsrdma/internal/firstbytes"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
)

// errNoReply reports that the responder closed the connection before sending a
// reply.
var errNoReply = errors.New("no reply")

// readFrame reads exactly one start-up frame. frameLen is mpa.RequestLen or
// mpa.ReplyLen.
func readFrame(nc net.Conn, frameLen func([]byte) (int, error)) ([]byte, error) {
	b := make([]byte, mpa.HeaderLen, mpa.HeaderLen+mpa.MaxPrivateData)
	if n, err := io.ReadFull(nc, b); err != nil {
		if n == 0 && (errors.Is(err, io.EOF) || isReset(err)) {
			err = fmt.Errorf("%w: %w", errNoReply, err)
		} else if n > 0 && !mpa.IsKeyPrefix(b[:min(n, mpa.KeyLen)]) {
			return nil, foreignError(mpa.ErrKey, b[:n])
		}
		return nil, fmt.Errorf("iwarp: MPA start-up frame: %w", err)
	}
	n, err := frameLen(b)
	if errors.Is(err, mpa.ErrKey) {
		return nil, foreignError(err, b)
	}
	if err != nil {
		return nil, fmt.Errorf("iwarp: %w", err)
	}
	if _, err := io.ReadFull(nc, b[mpa.HeaderLen:n]); err != nil {
		return nil, fmt.Errorf("iwarp: private data of the MPA start-up frame: %w", err)
	}
	return b[:n], nil
}

// foreignError adds the protocol of a peer that has sent b to err.
func foreignError(err error, b []byte) error {
	if protocol := firstbytes.Identify(b); protocol != "" {
		return fmt.Errorf("iwarp: %w: the peer speaks %s", err, protocol)
	}
	return fmt.Errorf("iwarp: %w", err)
}

// writeFrame sends a start-up frame.
func writeFrame(nc net.Conn, f mpa.Frame) error {
	if n := len(f.PrivateData); n > f.MaxPrivateDataLen() {
		return fmt.Errorf("iwarp: %d bytes of private data: the limit is %d", n, f.MaxPrivateDataLen())
	}
	if _, err := nc.Write(f.AppendTo(nil)); err != nil {
		return fmt.Errorf("iwarp: MPA start-up frame: %w", err)
	}
	return nil
}

// receiveReadRequest reads the initiator's frame.
func readRequest(nc net.Conn) (mpa.Frame, error) {
	b, err := readFrame(nc, mpa.RequestLen)
	if err != nil {
		return mpa.Frame{}, err
	}
	return mpa.ParseRequest(b)
}

// readReply reads the responder's frame.
func readReply(nc net.Conn) (mpa.Frame, error) {
	b, err := readFrame(nc, mpa.ReplyLen)
	if err != nil {
		return mpa.Frame{}, err
	}
	return mpa.ParseReply(b)
}
