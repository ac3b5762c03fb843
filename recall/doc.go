// Package recall is a gate before changes of objects that clients may hold: a
// change waits until each holder has given the object back.
//
//	change ──Begin──▶ Table ──recall──▶ Holder
//	  ▲ └─────Wait─────┘  ◀──Return───────┘
//
// A holder is added without a lock on the object: Hold adds it, and then looks for
// changes that have begun before and still run. If there may be one, the holder is
// withdrawn at once: nobody needs a delegation. A change does the opposite: it is
// counted, and then looks for holders. So the later of the two sees the other. The
// counts are of groups of objects, in one atomic word each.
//
// A holder may change its object by itself (Holder.Writer). Then the object has no
// other holder, and readers recall it too (Table.BeginRead).
//
// While nothing is held, a change costs two additions (Table.Blind), and a reader
// one load (Table.Written). The package
// must not know what a holder is, how it is told, or what an object is.
package recall
