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
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/recorder"
)

var errUnencrypted = errors.New("iwarp: the initiator does not encrypt the connection")

// handleStartup reads the peer's Request and passes it to Accept.
func (l *Listener) handleStartup(nc net.Conn) {
	if !l.addStarting(nc) {
		nc.Close()
		return
	}
	_ = nc.SetDeadline(time.Now().Add(l.device.cfg.startupTimeout()))
	device, mpaConn, err := l.device.secureConn(context.Background(), nc) // Close closes nc
	var r *connRequest
	if err == nil {
		r, err = device.receiveRequest(mpaConn)
	}
	l.removeStarting(nc)
	if err != nil {
		if mpaConn != nil {
			mpaConn.Close()
		}
		if l.device.cfg.Foreign != nil && errors.Is(err, mpa.ErrKey) {
			l.device.cfg.Foreign(nc.RemoteAddr(), err)
		}
		nc.Close()
		return
	}
	select {
	case l.ready <- r:
	case <-l.done:
		mpaConn.Close()
	}
}

// receiveRequest reads the peer's Request, and rejects it if no upper layer could accept it.
func (d *Device) receiveRequest(nc net.Conn) (*connRequest, error) {
	_ = nc.SetDeadline(time.Now().Add(d.cfg.startupTimeout()))
	record := recorder.New(nc, d.cfg.Record, pcap.Server)
	req, err := readRequest(record.Tap(nc))
	if err != nil {
		return nil, err
	}
	r := &connRequest{nc: nc, req: req, device: d, record: record}
	if d.cfg.OnlySecure {
		_ = r.sendReply(mpa.Reject(req, d.cfg.mpaLocal()), nil)
		return nil, errUnencrypted
	}
	reply, _, err := mpa.Accept(req, d.cfg.mpaLocal())
	if err != nil {
		_ = r.sendReply(reply, nil)
	}
	return r, err
}

func (l *Listener) addStarting(nc net.Conn) bool {
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

// closeOldestStartups closes the older half of the start-ups from the party that has the most, so
// that a party that opens connections and sends nothing does not lock out the others.
func (l *Listener) closeOldestStartups() {
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

func (l *Listener) removeStarting(nc net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.starting, nc)
}

// A connRequest is a received MPA Request that awaits its Reply. It implements
// rdma.ConnRequest.
type connRequest struct {
	device *Device
	nc     net.Conn
	req    mpa.Frame

	record *recorder.Recorder // or nil
}

func (r *connRequest) PrivateData() []byte  { return r.req.PrivateData }
func (r *connRequest) RemoteAddr() net.Addr { return r.nc.RemoteAddr() }

// sendReply sends a start-up frame with private data.
func (r *connRequest) sendReply(f mpa.Frame, privateData []byte) error {
	f.PrivateData = privateData
	_ = r.nc.SetDeadline(time.Now().Add(r.device.cfg.startupTimeout()))
	err := writeFrame(r.record.Tap(r.nc), f)
	_ = r.nc.SetDeadline(time.Time{})
	return err
}

// Accept sends the Reply and starts the connection. Nothing is sent on it
// before the peer's first FPDU.
func (r *connRequest) Accept(cc rdma.ConnConfig) (rdma.Conn, error) {
	reply, params, err := mpa.Accept(r.req, r.device.cfg.mpaLocal())
	if err != nil {
		r.nc.Close()
		return nil, err
	}
	c := r.device.newUnboundConn(params, r.req, cc, true)
	if cc.Prepare != nil {
		cc.PrivateData = cc.Prepare(c)
	}
	if err := r.sendReply(reply, cc.PrivateData); err != nil {
		c.releaseUnbound()
		r.nc.Close()
		return nil, err
	}
	c.bindSocket(newSocket(r.nc), r.record)
	c.startReader()
	return c, nil
}

// Reject sends a Reply that rejects the connection.
func (r *connRequest) Reject(privateData []byte) error {
	err := r.sendReply(mpa.Reject(r.req, r.device.cfg.mpaLocal()), privateData)
	if cerr := r.nc.Close(); err == nil {
		err = cerr
	}
	return err
}
