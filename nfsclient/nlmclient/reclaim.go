package nlmclient

import (
	"context"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// watchForRestart checks whether the server may have restarted, and then
// reclaims all locks.
func (c *Client) watchForRestart() {
	t := time.NewTicker(c.cfg.times.probeInterval)
	defer t.Stop()
	for last, n := uint64(0), 0; ; n++ {
		select {
		case <-t.C:
		case <-c.ctx.Done():
			return
		}
		if n%probeCalls == 0 && c.hasLocks() {
			none := rpcmsg.Cred{Flavor: rpcmsg.AuthNone}
			if err := c.lockManager.callOnce(c.ctx, nlm4.ProcNull, &none, nil, func(*xdr.Reader) {}); err != nil {
				c.cfg.Log.Debug("the lock manager does not reply", "err", err)
			}
		}
		if now := c.lockManager.currentEpoch(); now != last {
			last = now
			c.reclaimAll()
		}
	}
}

// reclaimAll reclaims all locks.
func (c *Client) reclaimAll() {
	work := make(chan *fileOwner)
	var workers sync.WaitGroup
	for range maxReclaimers {
		workers.Go(func() {
			for h := range work {
				for _, p := range c.lockPieces(h, wholeFile, false) {
					c.reclaimPiece(h, p)
				}
				c.releaseHolder(h)
			}
		})
	}
	for _, h := range c.useAllHolders() {
		work <- h
	}
	close(work)
	workers.Wait()
}

// reclaimPiece reclaims a lock, until the server has granted or denied it. A
// server that has not restarted denies the reclaim, and then grants the lock,
// which it still has.
func (c *Client) reclaimPiece(h *fileOwner, p lockPiece) {
	for {
		select {
		case h.sem <- struct{}{}:
		case <-c.ctx.Done():
			return
		}
		status, err := c.reclaimOnce(h, p)
		<-h.sem
		switch {
		case c.ctx.Err() != nil || err == nil && status == nlm4.Granted:
			return
		case err == nil && status == nlm4.DeniedGrace:
			if sleepContext(c.ctx, c.cfg.times.gracePause) != nil {
				return
			}
		default:
			return // lost
		}
	}
}

// reclaimOnce tries once to reclaim a lock. The caller must hold h.sem.
func (c *Client) reclaimOnce(h *fileOwner, p lockPiece) (nlm4.Status, error) {
	c.mu.Lock()
	held := h.holdsLocked(p)
	c.mu.Unlock()
	if !held { // already unlocked
		return nlm4.Granted, nil
	}
	status, err := c.callLockAgain(h, p, true)
	if err == nil && status != nlm4.Granted {
		status, err = c.callLockAgain(h, p, false)
	}
	if c.ctx.Err() != nil || err == nil && (status == nlm4.Granted || status == nlm4.DeniedGrace) {
		return status, err
	}
	c.mu.Lock()
	h.locks.Unlock(p.Range)
	h.file.unblockLocked()
	onLost := c.onLost
	c.mu.Unlock()
	pid, _ := c.lastRequest(h)
	c.cfg.Log.Error("lock lost: the server has restarted, and another client has acquired it", "pid", pid,
		"exclusive", p.kind == locks.Exclusive, "from", p.Start, "to", p.End, "status", status, "err", err)
	if onLost != nil {
		onLost(h.file.handle, h.owner)
	}
	return status, err
}

// unlockOldRecords releases, in the background, the locks that an earlier
// process with the same file has left.
func (c *Client) unlockOldRecords() {
	var old []ownerRecord
	if c.ownerList, old = openOwnerList(c.cfg.File, c.cfg.Log); len(old) == 0 {
		return
	}
	c.background.Go(func() {
		ctx, cancel := context.WithTimeout(c.ctx, c.cfg.times.closeLimit)
		defer cancel()
		for _, r := range old {
			if err := c.unlockRecord(ctx, &r); err != nil {
				c.cfg.Log.Warn("cannot release an earlier mount's locks; they may remain on the server", "err", err)
				return
			}
		}
		c.ownerList.removeRecords(old)
	})
}

// unlockRecord unlocks a record's file.
func (c *Client) unlockRecord(ctx context.Context, r *ownerRecord) error {
	for {
		status, err := c.callStatus(ctx, nlm4.ProcUnlock, &r.cred, &nlm4.UnlockArgs{Cookie: c.newCookie(), Lock: nlm4.Lock{
			Caller: []byte(r.name), Handle: r.handle, Owner: []byte(r.oh), SVID: r.svid,
		}})
		if err != nil || status != nlm4.DeniedGrace {
			return err
		}
		if err := sleepContext(ctx, c.cfg.times.gracePause); err != nil {
			return err
		}
	}
}
