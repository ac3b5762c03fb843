package iwarp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/origin"
	"github.com/nfsrdma/nfsrdma/internal/pcap"
	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// A Listener takes connections as MPA responder. It implements rdma.Listener.
type Listener struct {
	l   net.Listener
	cfg Config

	ready chan *request // requests read and not yet accepted
	done  chan struct{}
	once  sync.Once
	wg    sync.WaitGroup

	mu       sync.Mutex
	starting map[net.Conn]uint64 // those whose Request is being read, by age
	started  uint64              // all that were among them
	err      error               // why the listener ended by itself
}

var _ rdma.Listener = (*Listener)(nil)

// Listen listens on a TCP address. The network is tcp, tcp4 or tcp6. iWARP
// peers that use no port mapper, as Linux's siw, connect to the TCP port.
func Listen(network, addr string, cfg Config) (*Listener, error) {
	l, err := net.Listen(network, addr)
	if err != nil {
		return nil, err
	}
	return NewListener(l, cfg), nil
}

// NewListener takes connections from l, which it takes over.
func NewListener(l net.Listener, cfg Config) *Listener {
	ln := &Listener{
		l: l, cfg: cfg,
		ready: make(chan *request), done: make(chan struct{}),
		starting: make(map[net.Conn]uint64),
	}
	ln.wg.Go(ln.run)
	return ln
}

// Addr returns the TCP address.
func (l *Listener) Addr() net.Addr { return l.l.Addr() }

// Accept returns the next peer whose MPA Request has come.
func (l *Listener) Accept(ctx context.Context) (rdma.ConnRequest, error) {
	select {
	case r := <-l.ready:
		return r, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-l.done:
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.err != nil {
			return nil, fmt.Errorf("iwarp: %w: %w", rdma.ErrClosed, l.err)
		}
		return nil, fmt.Errorf("iwarp: listener: %w", rdma.ErrClosed)
	}
}

// Close stops listening and cuts off whoever is not accepted yet.
func (l *Listener) Close() error {
	err := l.stop(nil)
	l.wg.Wait()
	return err
}

func (l *Listener) stop(cause error) (err error) {
	l.once.Do(func() {
		l.mu.Lock()
		l.err = cause
		l.mu.Unlock()
		close(l.done)
		err = l.l.Close()
		l.mu.Lock()
		defer l.mu.Unlock()
		for nc := range l.starting {
			nc.Close()
		}
	})
	return err
}

// run accepts TCP connections. A failure that passes, such as too many open
// files, is waited out.
func (l *Listener) run() {
	slots := make(chan struct{}, maxStarting)
	for {
		select {
		case slots <- struct{}{}:
		case <-l.done:
			return
		case <-time.After(crowdedTime):
			l.thin()
			continue
		}
		nc, err := l.l.Accept()
		var passing interface{ Temporary() bool }
		switch {
		case err == nil:
			l.wg.Go(func() {
				l.startup(nc)
				<-slots
			})
			continue
		case errors.As(err, &passing) && passing.Temporary():
			<-slots
		default:
			_ = l.stop(err)
			return
		}
		select {
		case <-time.After(acceptPause):
		case <-l.done:
			return
		}
	}
}

// startup reads the peer's Request and offers the peer to Accept.
func (l *Listener) startup(nc net.Conn) {
	if !l.enter(nc) {
		nc.Close()
		return
	}
	r, err := l.request(nc)
	l.leave(nc)
	if err != nil {
		nc.Close()
		return
	}
	select {
	case l.ready <- r:
	case <-l.done:
		nc.Close()
	}
}

// request reads the peer's Request. One that no upper layer could accept gets
// its rejection here.
func (l *Listener) request(nc net.Conn) (*request, error) {
	_ = nc.SetDeadline(time.Now().Add(l.cfg.startup()))
	record := newRecorder(nc, l.cfg.Record, pcap.Server)
	req, err := readRequest(record.tap(nc))
	if err != nil {
		return nil, err
	}
	r := &request{nc: nc, req: req, cfg: l.cfg, record: record}
	reply, _, err := mpa.Accept(req, l.cfg.local())
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

// thin cuts off the older half of the start-ups of the party that has most of
// them, so that one which opens connections and says nothing keeps no other out.
func (l *Listener) thin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	parties := make(map[netip.Prefix][]net.Conn)
	var most []net.Conn
	for nc := range l.starting {
		p := origin.Of(nc.RemoteAddr())
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
	nc  net.Conn
	req mpa.Frame
	cfg Config

	record *recorder // or nil
}

func (r *request) PrivateData() []byte  { return r.req.PrivateData }
func (r *request) RemoteAddr() net.Addr { return r.nc.RemoteAddr() }

// reply sends a start-up frame with private data.
func (r *request) reply(f mpa.Frame, privateData []byte) error {
	f.PrivateData = privateData
	_ = r.nc.SetDeadline(time.Now().Add(r.cfg.startup()))
	err := writeFrame(r.record.tap(r.nc), f)
	_ = r.nc.SetDeadline(time.Time{})
	return err
}

// Accept sends the Reply and starts the connection. Nothing is sent on it
// before the peer's first FPDU.
func (r *request) Accept(cc rdma.ConnConfig) (rdma.Conn, error) {
	reply, params, err := mpa.Accept(r.req, r.cfg.local())
	if err == nil {
		err = r.reply(reply, cc.PrivateData)
	}
	if err != nil {
		r.nc.Close()
		return nil, err
	}
	c := newConn(newSocket(r.nc), params, r.req, cc, true)
	c.sock.record = r.record
	c.configure(r.cfg)
	c.start()
	return c, nil
}

// Reject sends a Reply that refuses the connection.
func (r *request) Reject(privateData []byte) error {
	err := r.reply(mpa.Reject(r.req, r.cfg.local()), privateData)
	if cerr := r.nc.Close(); err == nil {
		err = cerr
	}
	return err
}
