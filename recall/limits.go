package recall

import "github.com/nfsrdma/nfsrdma/internal/fairshare"

// maxWaiting is how many changes may wait at a time. Each occupies a goroutine of a
// transport, and no other resource that other calls need. A party gets half, or
// half of what others leave.
const maxWaiting = 1024

type places = fairshare.Places

func newPlaces() *places { return fairshare.NewPlaces(maxWaiting) }
