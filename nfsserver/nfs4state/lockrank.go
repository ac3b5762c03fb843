package nfs4state

// A lockRank is a mutex's place in the order in which mutexes are locked: a goroutine that holds
// a mutex locks only mutexes of higher ranks. Only of sessions' mutexes it may hold several.
// Builds with the race detector check the order.
type lockRank interface{ rank() int }

type (
	hostFileRank struct{}
	stateRank    struct{}
	partRank     struct{}
	shardRank    struct{}
	sessionRank  struct{}
	leafRank     struct{} // ledger.mu, and the mutexes of slabs and specials
)

func (hostFileRank) rank() int { return 1 }
func (stateRank) rank() int    { return 2 }
func (partRank) rank() int     { return 3 }
func (shardRank) rank() int    { return 4 }
func (sessionRank) rank() int  { return 5 }
func (leafRank) rank() int     { return maxRank }

const maxRank = 6
