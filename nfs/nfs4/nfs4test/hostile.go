package nfs4test

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// from makes a connection from another host than those of dial.
func (t *T) from(host byte) *conn {
	nc, err := t.DialFrom(host)
	require.NoError(t, err)
	t.cleanup(func() { nc.Close() })
	return &conn{t: t, nc: nc, xid: 0x10000, cred: t.root()}
}

// victim is the host that must be served, however hostile the others are.
const victim = 77

// hog makes a connection from a host of the scenario's own.
func (t *T) hog() *conn {
	if t.host == 0 {
		t.host = byte(100 + t.made.Add(1)%100)
	}
	return t.from(t.host)
}

// served asserts that a host which has nothing yet gets a client ID, a session
// and an open, in a time that does not depend on others.
func (t *T) served() {
	t.dir()
	start := time.Now()
	s := t.from(victim).client(t.unique()).session().ready()
	fh, id := t.openNew(s, t.unique())
	s.want(nfs4.OK, putFH(fh), write(id, 0, nfs4.Unstable, "data", new(nfs4.WriteRes)), closeFile(id))
	assert.Less(t, time.Since(start), callLimit/2)
	assert.Greater(t, s.fore.MaxRequests, uint32(1), "slots of the session")
}

// crowds are scenarios of many clients.
var crowds = []Scenario{
	{Name: "1,000 clients", By: "RFC 8881, 2.4", Heavy: true, run: func(t *T) {
		t.dir()
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
			s := c.client(t.unique()).session(func(a *nfs4.CreateSessionArgs) { a.Fore.MaxRequests = 2 }).ready()
			fh, id := t.openNew(s, fmt.Sprint("f", i%100))
			all = append(all, member{s, fh, id})
		}
		for _, m := range all {
			m.s.want(nfs4.OK, putFH(m.fh), read(m.id, 0, 10, new(nfs4.ReadRes)))
		}
		for _, m := range all {
			m.s.want(nfs4.OK, putFH(m.fh), closeFile(m.id))
			m.s.alone(nfs4.OK, destroySessionOp(m.s.id))
			m.s.alone(nfs4.OK, destroyClientIDOp(m.s.client.id))
		}
	}},
	{Name: "10,000 opens of one client", By: "RFC 8881, 9.7", Heavy: true, run: func(t *T) {
		s := t.session()
		var fhs []nfs4.FH
		for i := range 10 {
			fhs = append(fhs, t.object(nfs4.TypeReg, fmt.Sprint("f", i)))
		}
		ids := make([]nfs4.StateID, 10_000)
		for i := range ids {
			var res nfs4.OpenRes
			s.want(nfs4.OK, putFH(fhs[i%10]), open(openFH(fmt.Sprint("owner", i), nfs4.ShareRead, 0), &res))
			ids[i] = res.StateID
		}
		for i, id := range ids {
			s.want(nfs4.OK, putFH(fhs[i%10]), read(id, 0, 1, new(nfs4.ReadRes)), closeFile(id))
		}
	}},
}

// hogs are scenarios of clients that take all that they can get. Another host is
// served all the same. They need DialFrom.
var hogs = []Scenario{
	{Name: "a host registers clients without end", By: "RFC 8881, 21: denial of service", Hostile: true, run: func(t *T) {
		c := t.hog()
		for range 3000 {
			_, st := c.exchangeID(nfs4.ExchangeIDArgs{Owner: []byte(t.unique())})
			assert.Contains(t, []nfs4.Status{nfs4.OK, nfs4.ErrDelay}, st)
		}
		t.served()
	}},
	{Name: "a host confirms clients without end", By: "RFC 8881, 21: denial of service", Hostile: true, run: func(t *T) {
		c := t.hog()
		refused := 0
		for i := 0; i < 9000 && refused < 10; i++ {
			res, st := c.exchangeID(nfs4.ExchangeIDArgs{Owner: []byte(t.unique())})
			if st == nfs4.OK {
				_, st = c.create((&client{conn: c, id: res.ClientID, seq: res.SequenceID}).args())
			}
			if st != nfs4.OK {
				assert.Contains(t, []nfs4.Status{nfs4.ErrDelay, nfs4.ErrNoSpc}, st)
				refused++
			}
		}
		assert.NotZero(t, refused, "its clients are bounded")
		t.served()
	}},
	{Name: "a client makes sessions without end", By: "RFC 8881, 18.36.4: NFS4ERR_NOSPC", Hostile: true, run: func(t *T) {
		c := t.hog().client(t.unique())
		st := nfs4.OK
		for i := 0; i < 5000 && st == nfs4.OK; i++ {
			a := c.args()
			a.Fore.MaxRequests, a.Fore.MaxResponseSizeCached = 1000, 1<<20
			_, st = c.create(a)
			c.seq++
		}
		assert.Equal(t, nfs4.ErrNoSpc, st)
		t.served()
	}},
	{Name: "a client makes locks without end", By: "RFC 8881, 21: denial of service", Hostile: true, run: func(t *T) {
		t.dir()
		l := t.locker(t.hog().client(t.unique()).session().ready(), "f", "a")
		for i := range uint64(3000) {
			l.want(nfs4.OK, nfs4.LockRead, 2*i, 1)
		}
		t.served()
	}},
	{Name: "a client opens files without end", By: "RFC 8881, 21: denial of service", Hostile: true, run: func(t *T) {
		t.dir()
		s := t.hog().client(t.unique()).session().ready()
		first := t.openAs(s, "first", "a", nfs4.ShareBoth, 0)
		for i := range 3000 {
			t.openNew(s, fmt.Sprint("f", i))
		}
		t.served()
		s.want(nfs4.OK, putFH(first.fh), write(first.id, 0, nfs4.Unstable, "data", new(nfs4.WriteRes)))
	}},
	{Name: "a client never reads replies", By: "RFC 5531, 11", Hostile: true, run: func(t *T) {
		s := t.hog().client(t.unique()).session(func(a *nfs4.CreateSessionArgs) {
			a.Fore.MaxRequests, a.Fore.MaxResponseSize = 64, 1<<20
		}).ready()
		f := t.openAs(s, "f", "a", nfs4.ShareBoth, 0)
		s.want(nfs4.OK, putFH(f.fh), setAttr(f.id, sized(8<<20)))
		for range 8 {
			c := t.hog()
			for slot := range s.fore.MaxRequests {
				x := compound{minor: t.Minor, ops: []op{s.sequenceOp(slot), putFH(f.fh), read(f.id, 0, 1<<20, new(nfs4.ReadRes))}}
				c.nc.SetWriteDeadline(time.Now().Add(time.Second))
				c.send(append(c.appendCall(nil, nfs4.ProcCompound), x.encode()...))
			}
		}
		t.served()
	}},
	{Name: "a client sends tiny fragments", By: "RFC 5531, 11", Hostile: true, run: func(t *T) {
		for range 4 {
			c := t.hog()
			b := make([]byte, 4<<16) // fragments without a byte, none of which is the last
			c.nc.SetWriteDeadline(time.Now().Add(time.Second))
			c.nc.Write(b)
			one := xdr.AppendUint32(nil, 1)
			for range 2000 {
				if _, err := c.nc.Write(append(one, 'x')); err != nil {
					break
				}
			}
		}
		t.served()
	}},
	{Name: "a client announces more than it sends", By: "RFC 5531, 11", Hostile: true, run: func(t *T) {
		for i := range 100 {
			c := t.hog()
			size := []uint32{1<<31 - 1, 1 << 20, 100}[i%3]
			c.nc.Write(append(binary.BigEndian.AppendUint32(nil, lastFragment|size), 1, 2, 3))
		}
		t.served()
	}},
	{Name: "a host holds idle connections", By: "RFC 8881, 2.9", Hostile: true, run: func(t *T) {
		for range 300 {
			t.hog()
		}
		t.served()
	}},
	{Name: "a client holds all slots of a session", By: "RFC 8881, 2.10.6.1", Hostile: true, run: func(t *T) {
		s := t.hog().client(t.unique()).session(func(a *nfs4.CreateSessionArgs) { a.Fore.MaxRequests = 1000 }).ready()
		for slot := range s.fore.MaxRequests {
			x := compound{minor: t.Minor, ops: []op{s.sequenceOp(slot), putRootFH()}}
			s.send(append(s.appendCall(nil, nfs4.ProcCompound), x.encode()...))
			for range 20 { // retries of it, of which none is read
				s.send(append(s.appendCall(nil, nfs4.ProcCompound), x.encode()...))
			}
		}
		t.served()
	}},
}
