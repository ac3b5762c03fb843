package iwarp

import (
	"net"
	"time"

	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/iwarp/recorder"
	"github.com/nfsrdma/nfsrdma/rdma"
)

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
