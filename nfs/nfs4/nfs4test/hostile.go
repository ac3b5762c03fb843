package nfs4test

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// dialFrom opens a connection from one of the other hosts.
func (t *T) dialFrom(host byte) *conn {
	nc, err := t.DialFrom(host)
	require.NoError(t, err)
	t.addCleanup(func() { nc.Close() })
	return &conn{t: t, nc: nc, xid: 0x10000, cred: t.rootCred()}
}

// victim is the host that the server must serve, whatever the others do.
const victim = 77

// dialFromOwnHost opens a connection from a host that only this scenario uses.
func (t *T) dialFromOwnHost() *conn {
	if t.ownHost == 0 {
		t.ownHost = byte(100 + t.nameCount.Add(1)%100)
	}
	return t.dialFrom(t.ownHost)
}

// checkNewHostServed asserts that a new host gets a client ID, a session and an open
// within a time that does not depend on others.
func (t *T) checkNewHostServed() {
	t.ownDir()
	start := time.Now()
	s := t.dialFrom(victim).newClientID(t.uniqueName()).newSession().completeReclaim()
	fh, id := t.openNew(s, t.uniqueName())
	s.expectStatus(nfs4.OK, putFH(fh), writeOp(id, 0, nfs4.Unstable, "data", new(nfs4.WriteRes)), closeFile(id))
	assert.Less(t, time.Since(start), callLimit/2)
	assert.Greater(t, s.fore.MaxRequests, uint32(1), "slots of the session")
}

// manyClients are scenarios for many clients.
var manyClients = []Scenario{
	{Name: "1,000 clients", By: "RFC 8881, 2.4", Heavy: true, run: func(t *T) {
		t.ownDir()
		type member struct {
			s  *session
			fh nfs4.FH
			id nfs4.StateID
		}
		var all []member
		var c *conn
		for i := range 1000 {
			if i%50 == 0 {
				c = t.dial()
			}
			s := c.newClientID(t.uniqueName()).newSession(func(a *nfs4.CreateSessionArgs) { a.Fore.MaxRequests = 2 }).completeReclaim()
			fh, id := t.openNew(s, fmt.Sprint("f", i%100))
			all = append(all, member{s, fh, id})
		}
		for _, m := range all {
			m.s.expectStatus(nfs4.OK, putFH(m.fh), readOp(m.id, 0, 10, new(nfs4.ReadRes)))
		}
		for _, m := range all {
			m.s.expectStatus(nfs4.OK, putFH(m.fh), closeFile(m.id))
			m.s.callWithoutSequence(nfs4.OK, destroySessionOp(m.s.id))
			m.s.callWithoutSequence(nfs4.OK, destroyClientIDOp(m.s.client.id))
		}
	}},
	{Name: "10,000 opens of one client", By: "RFC 8881, 9.7", Heavy: true, run: func(t *T) {
		s := t.ownSession()
		var fhs []nfs4.FH
		for i := range 10 {
			fhs = append(fhs, t.newObject(nfs4.TypeReg, fmt.Sprint("f", i)))
		}
		ids := make([]nfs4.StateID, 10_000)
		for i := range ids {
			var res nfs4.OpenRes
			s.expectStatus(nfs4.OK, putFH(fhs[i%10]), openOp(openFH(fmt.Sprint("owner", i), nfs4.ShareRead, 0), &res))
			ids[i] = res.StateID
		}
		for i, id := range ids {
			s.expectStatus(nfs4.OK, putFH(fhs[i%10]), readOp(id, 0, 1, new(nfs4.ReadRes)), closeFile(id))
		}
	}},
}

// exhaustions are scenarios for clients that use up all resources they can get. Another
// host must still be served. They need DialFrom.
var exhaustions = []Scenario{
	{Name: "a host registers clients without end", By: "RFC 8881, 21: denial of service", Hostile: true, run: func(t *T) {
		c := t.dialFromOwnHost()
		for range 3000 {
			_, st := c.exchangeID(nfs4.ExchangeIDArgs{Owner: []byte(t.uniqueName())})
			assert.Contains(t, []nfs4.Status{nfs4.OK, nfs4.ErrDelay}, st)
		}
		t.checkNewHostServed()
	}},
	{Name: "a host confirms clients without end", By: "RFC 8881, 21: denial of service", Hostile: true, run: func(t *T) {
		c := t.dialFromOwnHost()
		refused := 0
		for i := 0; i < 9000 && refused < 10; i++ {
			res, st := c.exchangeID(nfs4.ExchangeIDArgs{Owner: []byte(t.uniqueName())})
			if st == nfs4.OK {
				_, st = c.createSession((&client{conn: c, id: res.ClientID, seq: res.SequenceID}).createSessionArgs())
			}
			if st != nfs4.OK {
				assert.Contains(t, []nfs4.Status{nfs4.ErrDelay, nfs4.ErrNoSpc}, st)
				refused++
			}
		}
		assert.NotZero(t, refused, "its clients are bounded")
		t.checkNewHostServed()
	}},
	{Name: "a client makes sessions without end", By: "RFC 8881, 18.36.4: NFS4ERR_NOSPC", Hostile: true, run: func(t *T) {
		c := t.dialFromOwnHost().newClientID(t.uniqueName())
		st := nfs4.OK
		for i := 0; i < 5000 && st == nfs4.OK; i++ {
			a := c.createSessionArgs()
			a.Fore.MaxRequests, a.Fore.MaxResponseSizeCached = 1000, 1<<20
			_, st = c.createSession(a)
			c.seq++
		}
		assert.Equal(t, nfs4.ErrNoSpc, st)
		t.checkNewHostServed()
	}},
	{Name: "a client makes locks without end", By: "RFC 8881, 21: denial of service", Hostile: true, run: func(t *T) {
		t.ownDir()
		l := t.newLocker(t.dialFromOwnHost().newClientID(t.uniqueName()).newSession().completeReclaim(), "f", "a")
		for i := range uint64(3000) {
			l.lockRange(nfs4.OK, nfs4.LockRead, 2*i, 1)
		}
		t.checkNewHostServed()
	}},
	{Name: "a client opens files without end", By: "RFC 8881, 21: denial of service", Hostile: true, run: func(t *T) {
		t.ownDir()
		s := t.dialFromOwnHost().newClientID(t.uniqueName()).newSession().completeReclaim()
		first := t.openAs(s, "first", "a", nfs4.ShareBoth, 0)
		for i := range 3000 {
			t.openNew(s, fmt.Sprint("f", i))
		}
		t.checkNewHostServed()
		s.expectStatus(nfs4.OK, putFH(first.fh), writeOp(first.id, 0, nfs4.Unstable, "data", new(nfs4.WriteRes)))
	}},
	{Name: "a client never reads replies", By: "RFC 5531, 11", Hostile: true, run: func(t *T) {
		s := t.dialFromOwnHost().newClientID(t.uniqueName()).newSession(func(a *nfs4.CreateSessionArgs) {
			a.Fore.MaxRequests, a.Fore.MaxResponseSize = 64, 1<<20
		}).completeReclaim()
		f := t.openAs(s, "f", "a", nfs4.ShareBoth, 0)
		s.expectStatus(nfs4.OK, putFH(f.fh), setAttr(f.id, sizeAttrs(8<<20)))
		for range 8 {
			c := t.dialFromOwnHost()
			for slot := range s.fore.MaxRequests {
				x := compound{minor: t.Minor, ops: []op{s.sequenceOp(slot), putFH(f.fh), readOp(f.id, 0, 1<<20, new(nfs4.ReadRes))}}
				c.nc.SetWriteDeadline(time.Now().Add(time.Second))
				c.sendRecord(append(c.appendCall(nil, nfs4.ProcCompound), x.encodeArgs()...))
			}
		}
		t.checkNewHostServed()
	}},
	{Name: "a client sends tiny fragments", By: "RFC 5531, 11", Hostile: true, run: func(t *T) {
		for range 4 {
			c := t.dialFromOwnHost()
			b := make([]byte, 4<<16) // empty fragments, none of which is the last
			c.nc.SetWriteDeadline(time.Now().Add(time.Second))
			c.nc.Write(b)
			one := xdr.AppendUint32(nil, 1)
			for range 2000 {
				if _, err := c.nc.Write(append(one, 'x')); err != nil {
					break
				}
			}
		}
		t.checkNewHostServed()
	}},
	{Name: "a client announces more than it sends", By: "RFC 5531, 11", Hostile: true, run: func(t *T) {
		for i := range 100 {
			c := t.dialFromOwnHost()
			size := []uint32{1<<31 - 1, 1 << 20, 100}[i%3]
			c.nc.Write(append(binary.BigEndian.AppendUint32(nil, lastFragment|size), 1, 2, 3))
		}
		t.checkNewHostServed()
	}},
	{Name: "a host holds idle connections", By: "RFC 8881, 2.9", Hostile: true, run: func(t *T) {
		for range 300 {
			t.dialFromOwnHost()
		}
		t.checkNewHostServed()
	}},
	{Name: "a client holds all slots of a session", By: "RFC 8881, 2.10.6.1", Hostile: true, run: func(t *T) {
		s := t.dialFromOwnHost().newClientID(t.uniqueName()).newSession(func(a *nfs4.CreateSessionArgs) { a.Fore.MaxRequests = 1000 }).completeReclaim()
		for slot := range s.fore.MaxRequests {
			x := compound{minor: t.Minor, ops: []op{s.sequenceOp(slot), putRootFH()}}
			s.sendRecord(append(s.appendCall(nil, nfs4.ProcCompound), x.encodeArgs()...))
			for range 20 { // retries, none of whose replies is read
				s.sendRecord(append(s.appendCall(nil, nfs4.ProcCompound), x.encodeArgs()...))
			}
		}
		t.checkNewHostServed()
	}},
}
