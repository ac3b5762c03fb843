package recall

// A HolderInfo describes a holder, for administrators.
type HolderInfo struct {
	Owner    uint64 // Holder.Owner
	Conn     any    // Holder.Conn
	Recalled bool
}

// ConnHolders returns at most limit holders of an object that hold it on a connection.
func (t *Table) ConnHolders(key []byte, limit int) (list []HolderInfo) {
	if t == nil {
		return nil
	}
	g := t.groupOf(key)
	g.mu.Lock()
	defer g.mu.Unlock()
	o := g.objects[string(key)]
	if o == nil {
		return nil
	}
	for _, h := range o.holders {
		if len(list) == limit {
			break
		}
		if h.Conn != nil && h.confirmed && !h.isReturned {
			list = append(list, HolderInfo{h.Owner, h.Conn, h.recalled})
		}
	}
	return list
}
