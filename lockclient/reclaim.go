package lockclient

import (
	"context"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/locks"
	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// watch notices that the server may have restarted, and claims the locks again.
func (c *Client) watch() {
	t := time.NewTicker(c.cfg.times.probe)
	defer t.Stop()
	for last, n := uint64(0), 0; ; n++ {
		select {
		case <-t.C:
		case <-c.life.Done():
			return
		}
		if n%probeCalls == 0 && c.locked() {
			none := rpcmsg.Cred{Flavor: rpcmsg.AuthNone}
			if err := c.line.try(c.life, nlm4.ProcNull, &none, nil, func(*xdr.Reader) {}); err != nil {
				c.cfg.Log.Debug("the lock manager does not answer", "err", err)
			}
		}
		if now := c.line.at(); now != last {
			last = now
			c.reclaimAll()
		}
	}
}

// reclaimAll claims all locks again.
func (c *Client) reclaimAll() {
	work := make(chan *holder)
	var workers sync.WaitGroup
	for range reclaimers {
		workers.Go(func() {
			for h := range work {
				for _, p := range c.pieces(h, whole, false) {
					c.reclaim(h, p)
				}
				c.unhold(h)
			}
		})
	}
	for _, h := range c.holders() {
		work <- h
	}
	close(work)
	workers.Wait()
}

// reclaim claims a lock again, until the server has given or refused it. A server
// that has not restarted refuses a reclaim, and grants what it still has.
func (c *Client) reclaim(h *holder, p piece) {
	for {
		select {
		case h.turn <- struct{}{}:
		case <-c.life.Done():
			return
		}
		status, err := c.reclaimOnce(h, p)
		<-h.turn
		switch {
		case c.life.Err() != nil || err == nil && status == nlm4.Granted:
			return
		case err == nil && status == nlm4.DeniedGrace:
			if sleep(c.life, c.cfg.times.grace) != nil {
				return
			}
		default:
			return // lost
		}
	}
}

// reclaimOnce claims a lock while the caller has the turn.
func (c *Client) reclaimOnce(h *holder, p piece) (nlm4.Status, error) {
	c.mu.Lock()
	held := h.holdsLocked(p)
	c.mu.Unlock()
	if !held { // unlocked meanwhile
		return nlm4.Granted, nil
	}
	status, err := c.claim(h, p, true)
	if err == nil && status != nlm4.Granted {
		status, err = c.claim(h, p, false)
	}
	if c.life.Err() != nil || err == nil && (status == nlm4.Granted || status == nlm4.DeniedGrace) {
		return status, err
	}
	c.mu.Lock()
	h.locks.Unlock(p.Range)
	h.file.advanceLocked()
	tell := c.lost
	c.mu.Unlock()
	pid, _ := c.last(h)
	c.cfg.Log.Error("a lock is lost: the server has restarted, and another client has the lock", "pid", pid,
		"exclusive", p.kind == locks.Exclusive, "from", p.Start, "to", p.End, "status", status, "err", err)
	if tell != nil {
		tell(h.file.handle, h.owner)
	}
	return status, err
}

// takeOver unlocks, in the background, what an earlier process with the same file
// has left locked.
func (c *Client) takeOver() {
	var old []record
	if c.left, old = openLeftovers(c.cfg.File, c.cfg.Log); len(old) == 0 {
		return
	}
	c.work.Go(func() {
		ctx, cancel := context.WithTimeout(c.life, c.cfg.times.farewell)
		defer cancel()
		for _, r := range old {
			if err := c.unlockOld(ctx, &r); err != nil {
				c.cfg.Log.Warn("locks of an earlier mount may remain at the server", "err", err)
				return
			}
		}
		c.left.drop(old)
	})
}

// unlockOld unlocks the file of a record.
func (c *Client) unlockOld(ctx context.Context, r *record) error {
	for {
		status, err := c.call(ctx, nlm4.ProcUnlock, &r.cred, &nlm4.UnlockArgs{Cookie: c.newCookie(), Lock: nlm4.Lock{
			Caller: []byte(r.name), Handle: r.handle, Owner: []byte(r.oh), SVID: r.svid,
		}})
		if err != nil || status != nlm4.DeniedGrace {
			return err
		}
		if err := sleep(ctx, c.cfg.times.grace); err != nil {
			return err
		}
	}
}
