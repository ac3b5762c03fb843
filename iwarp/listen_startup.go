package iwarp

import (
	"cmp"
	"net"
	"slices"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/internal/pcap"
	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/iwarp/recorder"
)

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

// request reads the peer's Request. It rejects a Request that no upper layer
// could accept.
func (l *Listener) request(nc net.Conn) (*request, error) {
	_ = nc.SetDeadline(time.Now().Add(l.device.cfg.startup()))
	record := recorder.New(nc, l.device.cfg.Record, pcap.Server)
	req, err := readRequest(record.Tap(nc))
	if err != nil {
		return nil, err
	}
	r := &request{nc: nc, req: req, device: l.device, record: record}
	reply, _, err := mpa.Accept(req, l.device.cfg.local())
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
