package iwarp

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/tenure"
	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
)

// TestTenure checks that an atomic operation that arrives after the end of a tenure is not
// executed, but resets the connection: by the check after a read, and by that before the operation.
func TestTenure(t *testing.T) {
	for name, gate := range map[string]func(*Conn, *tenure.Tenure){
		"after a read":        func(c *Conn, held *tenure.Tenure) { c.sock.tenure = held },
		"before an operation": func(c *Conn, held *tenure.Tenure) { c.tenure = held },
	} {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			word := tenure.Now() + int64(time.Hour)
			held := tenure.New(&word)
			e, p := connectRaw(t, rawOptions{recvs: 1, before: func(c *Conn) { gate(c, held) }})
			mem := make([]byte, 0x4000)
			r, err := e.Register(mem, rdma.RemoteAtomic)
			require.NoError(t, err)
			defer r.Deregister()
			counter := wordAt(t, mem, 0x3000)
			add := withWord(wiretest.Hex(t, "rdmap/testdata/fetch-add.hex"), ddp.UntaggedLen+8, uint32(r.STag()))
			p.sendSegments(add)
			p.expectAtomicResponse(1)
			assert.EqualValues(t, 1, counter.Load())
			held.End()
			p.sendSegments(withWord(add, 10, 2)) // the MSN
			p.expectReset()
			assert.EqualValues(t, 1, counter.Load())
			<-e.done
			assert.ErrorIs(t, e.cause, tenure.ErrOver)
		})
	}
}

// TestTenureReachesSockets checks that a device's connections have its tenure.
func TestTenureReachesSockets(t *testing.T) {
	word := tenure.Now() + int64(time.Hour)
	held := tenure.New(&word)
	c := Open(Config{Tenure: held}).newUnboundConn(mpa.Params{}, mpa.Frame{}, rdma.ConnConfig{Handler: newInbox()}, true)
	a, b := ncPair(t, true)
	defer b.Close()
	defer a.Close()
	c.bindSocket(newSocket(a), nil)
	defer c.releaseUnbound()
	assert.Same(t, held, c.tenure)
	assert.Same(t, held, c.sock.tenure)
}
