package nfs4test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// callLimit bounds the wait for a reply.
const callLimit = 10 * time.Second

// maxRecord is the maximum length of a reply in bytes.
const maxRecord = 8 << 20

// A conn is a connection to the server: RPC over TCP.
type conn struct {
	t    *T
	nc   net.Conn
	xid  uint32
	cred rpcmsg.Cred
}

// dial opens a connection for user 0. It is closed when the scenario ends.
func (t *T) dial() *conn {
	nc, err := t.Dial()
	require.NoError(t, err)
	t.addCleanup(func() { nc.Close() })
	return &conn{t: t, nc: nc, xid: 0x10000, cred: t.rootCred()}
}

// rootCred is the credential of user 0.
func (t *T) rootCred() rpcmsg.Cred { return rpcmsg.Cred{Flavor: rpcmsg.AuthSys} }

// withUID makes user uid the caller, and returns c.
func (c *conn) withUID(uid uint32) *conn {
	c.cred.UID, c.cred.GID = uid, uid
	return c
}

// appendCall appends an NFSv4 call header.
func (c *conn) appendCall(b []byte, proc uint32) []byte {
	c.xid++
	for _, v := range []uint32{c.xid, rpcmsg.MsgCall, rpcmsg.Version, nfs4.Program, nfs4.Version, proc} {
		b = xdr.AppendUint32(b, v)
	}
	var body []byte
	if c.cred.Flavor == rpcmsg.AuthSys {
		body = xdr.AppendString(xdr.AppendUint32(nil, 0), "nfs4test")
		body = xdr.AppendUint32(xdr.AppendUint32(body, c.cred.UID), c.cred.GID)
		body = xdr.AppendUint32(body, uint32(len(c.cred.GIDs)))
		for _, g := range c.cred.GIDs {
			body = xdr.AppendUint32(body, g)
		}
	}
	b = xdr.AppendOpaque(xdr.AppendUint32(b, c.cred.Flavor), body)
	return xdr.AppendOpaque(xdr.AppendUint32(b, rpcmsg.AuthNone), nil)
}

// lastFragment marks the last fragment of a record (RFC 5531, Section 11).
const lastFragment = 1 << 31

// sendRecord sends a message as one record.
func (c *conn) sendRecord(msg []byte) { require.NoError(c.t, c.trySend(msg)) }

// trySend sends a message as one record, and returns the error.
func (c *conn) trySend(msg []byte) error {
	record := binary.BigEndian.AppendUint32(nil, lastFragment|uint32(len(msg)))
	_, err := c.nc.Write(append(record, msg...))
	return err
}

// errNoReply reports that the server closed the connection instead.
var errNoReply = errors.New("the server closed the connection")

// receiveReply returns the next message that is a reply.
func (c *conn) receiveReply() ([]byte, error) {
	for {
		msg, err := c.receiveMessage(callLimit)
		if err != nil || len(msg) >= 8 && binary.BigEndian.Uint32(msg[4:]) == rpcmsg.MsgReply {
			return msg, err
		} // else a callback
	}
}

// receiveMessage returns the next message.
func (c *conn) receiveMessage(limit time.Duration) ([]byte, error) {
	c.nc.SetReadDeadline(time.Now().Add(limit))
	var msg []byte
	for {
		var head [4]byte
		if _, err := io.ReadFull(c.nc, head[:]); err != nil {
			return nil, fmt.Errorf("%w: %w", errNoReply, err)
		}
		mark := binary.BigEndian.Uint32(head[:])
		n := mark &^ lastFragment
		if n > maxRecord || len(msg)+int(n) > maxRecord {
			return nil, fmt.Errorf("a record of more than %d bytes", maxRecord)
		}
		at := len(msg)
		msg = append(msg, make([]byte, n)...)
		if _, err := io.ReadFull(c.nc, msg[at:]); err != nil {
			return nil, fmt.Errorf("%w in a record: %w", errNoReply, err)
		}
		if mark&lastFragment != 0 {
			return msg, nil
		}
	}
}

// callProc sends a call with the given arguments, and returns its accept_stat and
// results. If the call is denied, stat is deniedStat.
func (c *conn) callProc(proc uint32, args []byte) (stat uint32, results []byte, err error) {
	c.sendRecord(append(c.appendCall(nil, proc), args...))
	return c.awaitReply(c.xid)
}

// deniedStat replaces the accept_stat of a denied call.
const deniedStat = 1000

// awaitReply receives the reply to the call with an XID, which must be the next
// reply.
func (c *conn) awaitReply(xid uint32) (stat uint32, results []byte, err error) {
	msg, err := c.receiveReply()
	if err != nil {
		return 0, nil, err
	}
	r := xdr.NewReader(msg)
	require.Equal(c.t, xid, r.Uint32(), "XID")
	r.Uint32() // msg_type
	if r.Uint32() == rpcmsg.MsgDenied {
		return deniedStat, nil, nil
	}
	r.Uint32()
	r.Opaque(rpcmsg.MaxAuthBody)
	stat = r.Uint32()
	require.NoError(c.t, r.Err())
	return stat, r.Rest(), nil
}
