package pingpong

import (
	"context"
	"net"
	"time"
)

// Port is the TCP port of rdma-core's servers.
const Port = 18515

const (
	queueKey = 0x11111111 // the Q_Key of rdma-core's ibv_ud_pingpong
	pageSize = 4096       // rdma-core's programs check one byte per page
)

// A Config describes the messages. Both ends must have the same, except for
// Client, Check and Timeout.
type Config struct {
	Client   bool // this end sends the first message
	Datagram bool // Unreliable Datagram, not Unreliable Connection
	Size     int  // size of a message in bytes
	Count    int  // number of messages in each direction
	MTU      int  // path MTU of an Unreliable Connection

	// Check verifies contents: a client compares the messages that come back, a
	// server checks the zeros that rdma-core's clients and this one write.
	Check bool

	// Timeout bounds the handshake, and the wait for each message.
	Timeout time.Duration
}

// Run agrees with the peer over conn and exchanges all messages. It returns the
// time that the messages took. It does not close conn.
func Run(ctx context.Context, conn net.Conn, cfg Config) (time.Duration, error) {
	e, err := newEndpoint(ctx, cfg, conn)
	if err != nil {
		return 0, err
	}
	defer e.close()
	if err := e.exchangeAddresses(conn); err != nil {
		return 0, err
	}
	start := time.Now()
	err = e.runExchange()
	return time.Since(start), err
}
