"""The first stage: what students handed in becomes what is graded."""
