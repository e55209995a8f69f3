//! What nodes of a plan say alike in their `impl ExecutionPlan`.

/// The methods that don't differ between nodes which keep their properties in a field `properties`:
///
/// * `plan_node!(AExec)`: the name, the properties and the old way to replace children;
/// * `plan_node!(AExec, over input)`: these, and the only child, in the field `input`. Another one is
///   put in its place by `fn with_input(&self, Arc<dyn ExecutionPlan>) -> Result<Self>`;
/// * `plan_node!(AExec, leaf)`: these, and no children;
/// * `plan_node!(no expressions)`: that none is evaluated.
///
/// `Arc` and DataFusion's `Result`, `ExecutionPlan` and `PlanProperties` have to be in scope.
#[doc(hidden)]
#[macro_export]
macro_rules! plan_node {
    ($node:ident) => {
        fn name(&self) -> &'static str {
            stringify!($node)
        }

        fn properties(&self) -> &Arc<PlanProperties> {
            &self.properties
        }

        fn with_new_children(
            self: Arc<Self>,
            children: Vec<Arc<dyn ExecutionPlan>>,
        ) -> Result<Arc<dyn ExecutionPlan>> {
            use ::datafusion::physical_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            self.replace_children(children, options)
        }
    };
    ($node:ident, over $input:ident) => {
        $crate::plan_node!($node);

        fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
            vec![&self.$input]
        }

        fn replace_children(
            self: Arc<Self>,
            mut children: Vec<Arc<dyn ExecutionPlan>>,
            _options: ::datafusion::physical_plan::ReplaceChildrenOptions,
        ) -> Result<Arc<dyn ExecutionPlan>> {
            match children.pop() {
                Some(input) if children.is_empty() => Ok(Arc::new(self.with_input(input)?)),
                _ => Err(::datafusion::common::DataFusionError::Internal(
                    concat!(stringify!($node), " has one child").to_owned(),
                )),
            }
        }
    };
    ($node:ident, leaf) => {
        $crate::plan_node!($node);

        fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
            Vec::new()
        }

        fn replace_children(
            self: Arc<Self>,
            _children: Vec<Arc<dyn ExecutionPlan>>,
            _options: ::datafusion::physical_plan::ReplaceChildrenOptions,
        ) -> Result<Arc<dyn ExecutionPlan>> {
            Ok(self)
        }
    };
    (no expressions) => {
        fn apply_expressions(
            &self,
            _f: &mut dyn FnMut(
                &Arc<dyn ::datafusion::physical_expr::PhysicalExpr>,
            ) -> Result<::datafusion::common::tree_node::TreeNodeRecursion>,
        ) -> Result<::datafusion::common::tree_node::TreeNodeRecursion> {
            Ok(::datafusion::common::tree_node::TreeNodeRecursion::Continue)
        }
    };
}
