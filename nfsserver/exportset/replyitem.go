package exportset

import "context"

// A ReplyItem is the memory for one data item of a reply, into which a call reads from the
// export's file system. Memory is scarce, and so are permits: a call that waits for memory
// holds no permit, because the calls that have the memory may wait for permits.
type ReplyItem struct {
	request *Request
	further bool
}

// NewReplyItem returns a data item of the call's reply, without memory: the first one, or a
// further one.
func (q *Request) NewReplyItem(further bool) ReplyItem { return ReplyItem{q, further} }

// Acquire waits for n bytes of memory and then for a permit, and returns the memory. A call that
// does not use an export yet gets memory only. For a further item, Acquire does not wait for
// memory, which other calls may wait for: it returns Later. After an error there is no memory.
func (i ReplyItem) Acquire(ctx context.Context, n int) (p []byte, err error) {
	i.request.ReleasePermit()
	if !i.further {
		p = i.request.reply.NewItem(n)
	} else if p, _ = i.request.reply.AddItem(n); p == nil {
		return nil, Later
	}
	if i.request.Export == nil {
		return p, nil
	}
	if err := i.request.AcquirePermit(ctx); err != nil {
		i.Release()
		return nil, err
	}
	return p, nil
}

// Release releases the memory to other calls, if there is any. The permit remains.
func (i ReplyItem) Release() {
	if i.further {
		i.request.reply.DropLast()
	} else {
		i.request.reply.DropItem()
	}
}
