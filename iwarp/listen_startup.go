package iwarp

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/internal/pcap"
	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/iwarp/recorder"
	"github.com/nfsrdma/nfsrdma/rdma"
)

var errInClear = errors.New("iwarp: the initiator begins in clear")

// startup reads the peer's Request and offers the peer to Accept.
func (l *Listener) startup(nc net.Conn) {
	if !l.enter(nc) {
		nc.Close()
		return
	}
	_ = nc.SetDeadline(time.Now().Add(l.device.cfg.startup()))
	device, over, err := l.device.secure(context.Background(), nc) // Close closes nc
	var r *request
	if err == nil {
		r, err = device.request(over)
	}
	l.leave(nc)
	if err != nil {
		if over != nil {
			over.Close()
		}
		nc.Close()
		return
	}
	select {
	case l.ready <- r:
	case <-l.done:
		over.Close()
	}
}

// request reads the peer's Request. It rejects a Request that no upper layer
// could accept.
func (d *Device) request(nc net.Conn) (*request, error) {
	_ = nc.SetDeadline(time.Now().Add(d.cfg.startup()))
	record := recorder.New(nc, d.cfg.Record, pcap.Server)
	req, err := readRequest(record.Tap(nc))
	if err != nil {
		return nil, err
	}
	r := &request{nc: nc, req: req, device: d, record: record}
	if d.cfg.OnlySecure {
		_ = r.reply(mpa.Reject(req, d.cfg.local()), nil)
		return nil, errInClear
	}
	reply, _, err := mpa.Accept(req, d.cfg.local())
	if err != nil {
		_ = r.reply(reply, nil)
	}
	return r, err
}

func (l *Listener) enter(nc net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.done:
		return false
	default:
		l.starting[nc] = l.started
		l.started++
		return true
	}
}

// thin closes the older half of the start-ups of the party that has most of
// them, so that a party that opens connections and sends nothing does not lock
// out the others.
func (l *Listener) thin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	parties := make(map[fairshare.Name][]net.Conn)
	var most []net.Conn
	for nc := range l.starting {
		p := fairshare.PartyOf(nc.RemoteAddr())
		parties[p] = append(parties[p], nc)
		if len(parties[p]) > len(most) {
			most = parties[p]
		}
	}
	slices.SortFunc(most, func(a, b net.Conn) int { return cmp.Compare(l.starting[a], l.starting[b]) })
	for _, nc := range most[:(len(most)+1)/2] {
		nc.Close()
	}
}

func (l *Listener) leave(nc net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.starting, nc)
}

// A request is a peer that awaits its MPA Reply. It implements
// rdma.ConnRequest.
type request struct {
	device *Device
	nc     net.Conn
	req    mpa.Frame

	record *recorder.Recorder // or nil
}

func (r *request) PrivateData() []byte  { return r.req.PrivateData }
func (r *request) RemoteAddr() net.Addr { return r.nc.RemoteAddr() }

// reply sends a start-up frame with private data.
func (r *request) reply(f mpa.Frame, privateData []byte) error {
	f.PrivateData = privateData
	_ = r.nc.SetDeadline(time.Now().Add(r.device.cfg.startup()))
	err := writeFrame(r.record.Tap(r.nc), f)
	_ = r.nc.SetDeadline(time.Time{})
	return err
}

// Accept sends the Reply and starts the connection. Nothing is sent on it
// before the peer's first FPDU.
func (r *request) Accept(cc rdma.ConnConfig) (rdma.Conn, error) {
	reply, params, err := mpa.Accept(r.req, r.device.cfg.local())
	if err != nil {
		r.nc.Close()
		return nil, err
	}
	c := r.device.unbound(params, r.req, cc, true)
	if cc.Prepare != nil {
		cc.PrivateData = cc.Prepare(c)
	}
	if err := r.reply(reply, cc.PrivateData); err != nil {
		c.abandon()
		r.nc.Close()
		return nil, err
	}
	c.bind(newSocket(r.nc), r.record)
	c.start()
	return c, nil
}

// Reject sends a Reply that refuses the connection.
func (r *request) Reject(privateData []byte) error {
	err := r.reply(mpa.Reject(r.req, r.device.cfg.local()), privateData)
	if cerr := r.nc.Close(); err == nil {
		err = cerr
	}
	return err
}
