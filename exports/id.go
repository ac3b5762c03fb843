package exports

import "strconv"

// Nobody is the user and group that stand for callers without an identity
// where anonuid and anongid say nothing.
const Nobody = 65534

// An ID is the number of a user or a group. The zero value is Nobody's.
type ID struct{ xor uint32 }

// NewID returns the ID of number n.
func NewID(n uint32) ID { return ID{n ^ Nobody} }

// Number returns the number of i.
func (i ID) Number() uint32 { return i.xor ^ Nobody }

// String returns the number in decimal.
func (i ID) String() string { return strconv.FormatUint(uint64(i.Number()), 10) }
