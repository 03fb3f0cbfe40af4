/* _pad.h - what Pad's evaluation and emission share. */
#ifndef QN_OPS_PAD_H
#define QN_OPS_PAD_H

#include "graph/ops/_move.h"

typedef enum { QN_PAD_CONSTANT, QN_PAD_REFLECT, QN_PAD_EDGE, QN_PAD_WRAP } qn_pad_mode;

typedef struct qn_pad {
	qn_pad_mode mode;
	qn_dim low[QN_MAX_RANK], high[QN_MAX_RANK]; /* elements added in front and behind; negative: removed */
} qn_pad;

/* From attributes (before opset 11) or inputs. */
qn_status qn_pad_read(qn_call *c, qn_pad *p);
qn_status qn_pad_emit(qn_emit *e);

#endif
